import { constants, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as deployments from '../../db/deploys/deployments.ts'
import { findSnapshotDigest } from '../../db/snapshots/snapshots.ts'
import { nameBytes } from '../../lib/folders/disk-names.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { ConfigRefused, configNames, parseAppConfig } from '../../policy/apps/app-config.ts'
import { configTooLarge, maxConfigBytes } from '../../policy/archives/archive-rules.ts'
import { languages, namesForInstall } from '../../policy/runtimes.ts'
import { refusal } from '../failures.ts'
import { FetchRefused } from '../git/port.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { BodyNotFound } from '../objects/port.ts'
import { SnapshotCorrupt } from '../snapshots/port.ts'
import { deploymentLog } from './deployment-log.ts'
import type { ReleaseFolders } from './files.ts'
import type { Release, Source } from './release.ts'
import { namesIn } from './root-names.ts'

/** What a fetched configuration changes in its release. */
export type Configured = Partial<Pick<Release, 'language' | 'runtimeVersion' | 'main'>>

/** Brings the files of a release into its empty `source` folder. */
export async function bringSource(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  owner: Owner | null,
  signal: AbortSignal,
): Promise<Configured> {
  const { source } = release
  const notStored = () => refusal('DEPLOY_FAILED', 'What the deployment brings is no longer stored.')
  if (!source) throw notStored()
  if (source.kind === 'git') return fetchSource(host, release, source, folders, owner, signal)
  if (source.kind === 'file') {
    await copyFile(host, source, folders, owner)
    return {}
  }
  if (source.kind === 'snapshot') {
    if (source.segmentId === null) throw notStored()
    await unpackSnapshot(host, source.segmentId, folders, owner, signal)
    return {}
  }
  const archive = await host.store.open(source.segmentId)
  await host.archives
    .unpack(archive, folders.source, owner, { account: release.ownerId })
    .finally(() => archive.close())
  return {}
}

/** Accepts only the archive that was recorded with the snapshot: another one may be intact, but of another application. */
async function unpackSnapshot(
  { db, store, snapshots }: AppHostOptions,
  segmentId: string,
  { source }: ReleaseFolders,
  owner: Owner | null,
  signal: AbortSignal,
): Promise<void> {
  const archive = await store.open(segmentId).catch(error => {
    throw error instanceof BodyNotFound ? new SnapshotCorrupt('Its archive is no longer in the object store.') : error
  })
  const unpacked = await snapshots.unpack(archive, source, owner, signal).finally(() => archive.close())
  if (unpacked.digest !== (await findSnapshotDigest(db, segmentId)))
    throw new SnapshotCorrupt('Its archive holds other files than were copied.')
}

async function copyFile(
  { store }: AppHostOptions,
  { segmentId, filename }: Extract<Source, { kind: 'file' }>,
  { source }: ReleaseFolders,
  owner: Owner | null,
): Promise<void> {
  const target = await open(join(source, filename), 'wx', 0o644)
  try {
    await writeFile(target, await store.get(segmentId)) // a stream of the handle would prevent its closing
    if (owner) await target.chown(owner.uid, owner.gid)
  } finally {
    await target.close()
  }
}

/** Fetches exactly the commit; a configuration file in it is parsed and recorded for the step that adopts it. */
async function fetchSource(
  { db, git, credentials, gitLimits, traits }: AppHostOptions,
  { deploymentId }: Release,
  { cloneUrl, branch, commit }: Extract<Source, { kind: 'git' }>,
  folders: ReleaseFolders,
  owner: Owner | null,
  signal: AbortSignal,
): Promise<Configured> {
  const token = deploymentId ? await credentials(deploymentId) : null
  const request = { url: cloneUrl, branch, commit, token, folder: folders.source, owner, ...gitLimits }
  const log = deploymentLog(async (text, maxBytes) =>
    deploymentId ? deployments.appendLog(db, deploymentId, text, maxBytes) : true,
  )
  const logLine = (line: string) => void log.add(`${line}\n`)
  try {
    await git.fetch(request, logLine, signal)
  } catch (error) {
    throw error instanceof FetchRefused ? refusal(error.code, error.message) : error
  } finally {
    await log.close()
  }
  const config = await readConfig(folders.source, traits.configNames)
  if (!config || !deploymentId) return {}
  await deployments.recordDeploymentConfig(db, deploymentId, config)
  return { language: config.language, runtimeVersion: config.runtimeVersion, main: config.main }
}

async function readConfig(folder: string, names: readonly string[]) {
  const tree = new Tree(folder, { readOnly: true })
  try {
    const has = (path: string) => tree.stat(nameBytes(path))?.isDirectory() === false
    const name = [...new Set([...configNames, ...names])].find(candidate => tree.stat(nameBytes(candidate)) !== null)
    if (!name) return null
    const text = await readSmall(join(folder, name))
    // The names of every language: the text decides which one it is.
    const rootNames = await namesIn(folder, languages.flatMap(namesForInstall))
    return parseAppConfig(text, { has, rootNames })
  } catch (error) {
    throw error instanceof ConfigRefused ? refusal(error.code, error.message) : error
  } finally {
    tree.close()
  }
}

/** The text of a small file that is not a link. */
async function readSmall(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null)
  if (!file) throw refusal('INVALID_FILE', 'The configuration file is not a plain file.')
  try {
    const { size } = await file.stat()
    if (size > maxConfigBytes) throw refusal('INVALID_FILE', configTooLarge)
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}
