import { access, chown, lstat, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Owner } from '../../lib/folders/owner.ts'
import type { InstallFacts } from '../../policy/hosts/installs.ts'
import type { InstallInputs } from '../../policy/runtimes/runtime.ts'
import { removeWhole } from '../app-files/trash.ts'
import { refusal } from '../failures.ts'
import { recordNames } from '../placement/job.ts'

/** Where the files of one release lie inside its application's volume. */
export function releaseFolders(volume: string, release: number) {
  const root = join(volume, 'releases', String(release))
  return {
    volume,
    root,
    /** The files that the release brings, until they are placed. */
    source: join(root, 'source'),
    /** Sources laid over the application's files, or only what an install step depends on of both, where an upload of some files needs one. */
    build: join(root, 'build'),
    /** Only the files that the install step depends on, where it depends on nothing else: it runs here. */
    install: join(root, 'install'),
    /** Receives what the tools of a build leave for the next one. */
    tools: join(root, 'tools'),
    /** Output of the install step; mounted read-only. */
    dependencies: join(root, 'dependencies'),
    /** Written once all files are there; holds the next steps. */
    marker: join(root, 'prepared.json'),
    /** The application's own folder, mounted at /app. */
    files: join(volume, 'files'),
  }
}

export type ReleaseFolders = ReturnType<typeof releaseFolders>

export interface Prepared {
  /** Shell text of the install step, or null when there is nothing to install. */
  install: string | null
  /** Release whose installed dependencies this one uses too; null when it has its own or needs none. */
  dependenciesOf: number | null
  /** That one had dependencies when this was written; missing from older versions, which also name releases that have none. */
  isLent?: true
  /** The deployment that it was prepared for: once an older state of the database is restored, release numbers are assigned again. */
  deploymentId?: string | null
  /** Whether it must use nothing that was installed before; missing from older versions. */
  isClean?: boolean
  /** The only files of the root that the install step depends on; missing when it depends on more. */
  inputs?: Extract<InstallInputs, { isPinned: boolean }>
  /** The lock file that the step writes because none was brought: it is no file of the application, and is removed after the step. */
  writtenLock?: string
  /** Why the result of a step with this key showed that it needs all files; the next one with that key sees them from its start. */
  needsMore?: { key: string; because: string }
  /** Where its dependencies come from, in words; missing from older versions and where nothing has to be installed. */
  dependencies?: string
  /** The result that lies in this release's own folder `dependencies`; missing when it must not be used again. */
  installed?: Installed
  /** What such a result that must not be used again depends on besides files that only its step knows; missing from older versions. */
  facts?: InstallFacts
  /** Its step ran among all files of the application, and may have read any. */
  isOfAll?: true
  /** That result was found to be other than what was installed: no other release uses it. */
  isDamaged?: true
  /** A build without the cache, which would have used it, was started since: no other release uses it. */
  isForsaken?: true
}

/** The result of an install step that depends on nothing but these facts. */
export interface Installed {
  key: string
  facts: InstallFacts
  isPinned: boolean
  /** Digest of its files (activities/snapshots/port.ts). */
  digest: string
  /** ISO 8601. */
  at: string
}

/** Creates an empty `source` folder owned by the application; removes what a killed attempt left. */
export async function emptySource(folders: ReleaseFolders, owner: Owner | null): Promise<void> {
  await removeWhole(folders.volume, folders.root)
  await mkdir(folders.source, { recursive: true, mode: 0o755 })
  if (!owner) return
  await chown(folders.root, owner.uid, owner.gid)
  await chown(folders.source, owner.uid, owner.gid)
}

export async function readPrepared(folders: ReleaseFolders): Promise<Prepared | null> {
  try {
    return JSON.parse(await readFile(folders.marker, 'utf8'))
  } catch {
    return null
  }
}

/**
 * Whether a release was prepared for this deployment. Markers of older versions name no deployment: where files were already
 * replaced, what is needed to put them back lies there too and must not be lost.
 */
export async function isPreparedFor(
  folders: ReleaseFolders,
  { deploymentId }: Prepared,
  expected: string | null,
): Promise<boolean> {
  if (deploymentId !== undefined) return deploymentId === expected
  const records = [recordNames.journal, recordNames.before, recordNames.first].map(name =>
    exists(join(folders.root, name)),
  )
  return (await Promise.all(records)).includes(true)
}

/** Renames the marker into place, so that a torn one is never read, even after a power cut. */
export async function writePrepared(folders: ReleaseFolders, prepared: Prepared): Promise<void> {
  await writeFile(`${folders.marker}.new`, JSON.stringify(prepared), { flush: true })
  await rename(`${folders.marker}.new`, folders.marker)
}

/**
 * Moves the output of the install step out of the folder it ran in, to be mounted read-only. Only a real folder: the engine
 * would follow a link that an untrusted install script created. Moved already is success.
 */
export async function keepDependencies(folders: ReleaseFolders, ranIn: string, from: string): Promise<void> {
  const output = join(ranIn, from)
  const stats = await lstat(output).catch(() => null)
  if (stats?.isDirectory() && !(await exists(folders.dependencies))) await rename(output, folders.dependencies)
  await removeWhole(folders.volume, folders.build, folders.install)
}

/**
 * The release in whose folder the dependencies of this one lie: another one's, an earlier one's when nothing had to be installed or that of a later
 * one that was placed without a restart, or its own. Null when it needs none; `lost` when it needs some that are missing.
 */
export async function lenderOf(volume: string, release: number): Promise<number | 'lost' | null> {
  const prepared = await readPrepared(releaseFolders(volume, release))
  for (const number of [prepared?.dependenciesOf ?? release, release])
    if (await exists(releaseFolders(volume, number).dependencies)) return number
  return prepared?.isLent || prepared?.installed ? 'lost' : null
}

/** The folder with the dependencies of a release; null when it needs none. Throws ACTION_FAILED when they are missing: it would start without. */
export async function dependenciesOf(volume: string, release: number): Promise<string | null> {
  const lender = await presentLenderOf(volume, release)
  return lender === null ? null : releaseFolders(volume, lender).dependencies
}

/** From its next start on, a release uses the dependencies of a later one. Throws as `dependenciesOf`. */
export async function lendDependencies(volume: string, to: number, from: number): Promise<void> {
  const lender = await presentLenderOf(volume, from)
  if (lender === null || lender === to) return
  const lent = { ...(await readPrepared(releaseFolders(volume, to))), install: null, dependenciesOf: lender }
  await writePrepared(releaseFolders(volume, to), { ...lent, isLent: true })
}

async function presentLenderOf(volume: string, release: number): Promise<number | null> {
  const lender = await lenderOf(volume, release)
  if (lender !== 'lost') return lender
  throw refusal('ACTION_FAILED', 'The installed dependencies are no longer at the host. Deploy the application again.')
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
