import { open } from 'node:fs/promises'
import { appendLog, recordDependencies } from '../../db/deploys/deployments.ts'
import { untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { codeOf, vanished } from '../../lib/folders/error-codes.ts'
import { earlierCacheAt, newCacheAt, newCacheName, withToolFolders } from '../../policy/runtimes/tool-folders.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { AppFolder } from '../app-files/folder.ts'
import { removeWhole } from '../app-files/trash.ts'
import { buildTraits } from '../builds/build-traits.ts'
import type { ContainerSpec } from '../containers/port.ts'
import { isRefusal } from '../failures.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import type { Prepared, ReleaseFolders } from '../releases/files.ts'
import { finishInstall, readyInstall, runInstall } from '../releases/install.ts'
import { installFolder } from '../releases/install-plan.ts'
import { releasePlacement } from '../releases/placement-request.ts'
import type { Release } from '../releases/release.ts'
import { emptyFolder } from './inputs.ts'
import { certificatesIn, installKey, toolFacts } from './key.ts'
import type { HeldTools } from './port.ts'

/**
 * Builds a release in a language with tools that have a cache, which this build gets from the last one of the application and leaves to the
 * next one. A build that fails with such a cache runs again without it, in what is left of its time. Throws as `installRelease`.
 */
export async function buildCompiled(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  { install, isClean = false }: { install: string } & Pick<Prepared, 'isClean'>,
  signal: AbortSignal,
  maxSeconds: number,
): Promise<void> {
  const startedAt = performance.now()
  const noCache = isClean ? 'a build without the cache was requested' : null
  // Also where this build fails, or leaves none.
  if (isClean) await host.installs?.dropTools(release.ownerId, release.appId)
  const build = new Build(host, release, folders, { install, isClean }, signal)
  try {
    await build.run(noCache, maxSeconds)
  } catch (error) {
    const seconds = Math.floor(maxSeconds - (performance.now() - startedAt) / 1000)
    if (!build.usedCache || !isRefusal(error, 'BUILD_FAILED')) throw error
    if (seconds <= 0) {
      await host.installs?.dropTools(release.ownerId, release.appId)
      throw error
    }
    if (release.deploymentId) await appendLog(host.db, release.deploymentId, `${againLine}\n`)
    await build.run('the build failed with that of the last one', seconds)
    await host.installs?.dropTools(release.ownerId, release.appId)
  }
  await build.keepTools()
  await finishInstall(host, release, folders, await installFolder(folders))
}

/** Line in the log of a deployment. */
export const againLine = 'The build failed with the cache of the last one, so it runs again without it.'

/** The runs of one build. */
class Build {
  /** Whether the last run had the cache of an earlier build. */
  usedCache = false
  /** Of the cache that the last run leaves. */
  #key: string | null = null
  #held: HeldTools | null = null

  constructor(
    readonly host: AppHostOptions,
    readonly release: Release,
    readonly folders: ReleaseFolders,
    readonly step: { install: string; isClean: boolean },
    readonly signal: AbortSignal,
  ) {}

  /** Runs it once: with the cache of the last build, unless there is a reason against that. */
  async run(noCache: string | null, seconds: number): Promise<void> {
    const { host, release, folders, signal } = this
    const { isClean } = this.step
    const install = withToolFolders(this.step.install, runtimes[release.language].toolFolders!)
    await emptyFolder(folders, 'tools', releasePlacement(host).ownerOf(release))
    const traits = await buildTraits(host)
    const certificates = await certificatesIn(traits.caBundle)
    const folder = await installFolder(folders)
    const ready = await readyInstall(host, release, { install, folder, traits })
    const { spec, imageId } = ready
    this.#key =
      imageId &&
      installKey(toolFacts(release.appId, { release, spec, imageId, architecture: process.arch, certificates }))
    try {
      const binds = this.#key ? await this.#mounts(this.#key, noCache) : []
      await runInstall(host, release, { ...ready, folder, binds, isClean }, signal, seconds)
    } finally {
      await this.#held?.close()
      this.#held = null
    }
  }

  async #mounts(key: string, noCache: string | null): Promise<ContainerSpec['binds']> {
    const { host, release, folders } = this
    const tools = noCache ?? (await this.#find(key))
    this.#held = typeof tools === 'string' ? null : tools
    this.usedCache = this.#held !== null
    const words = this.#held
      ? `built from the sources, with the cache of its tools of ${new Date(this.#held.at).toISOString()}`
      : `built from the sources, without a cache: ${tools}`
    if (release.deploymentId) await recordDependencies(host.db, release.deploymentId, words)
    return [
      ...(host.installs ? [{ source: folders.tools, target: newCacheAt, readOnly: false }] : []),
      ...(this.#held ? [{ source: this.#held.path, target: earlierCacheAt, readOnly: true }] : []),
    ]
  }

  /** The cache of the last build, or why there is none. */
  async #find(key: string): Promise<HeldTools | string> {
    const { host, release, signal } = this
    if (!host.installs) return 'this host stores none'
    const opened = host.installs.openTools(release.ownerId, release.appId, key, signal)
    const tools = await opened.catch(error => {
      signal.throwIfAborted()
      host.warn?.({ appId: release.appId, err: error }, 'installs: a stored cache of tools could not be verified')
      return 'unverified' as const
    })
    if (tools === null) return 'this host has none of the application'
    if (typeof tools !== 'string') return tools
    if (tools === 'damaged')
      host.warn?.({ appId: release.appId }, 'installs: a stored cache of tools is not as it was stored')
    return why[tools]
  }

  /** Stores the cache that the last run has left, if it has; in the background. Removes the folder in any case. */
  async keepTools(): Promise<void> {
    const { host, release, folders } = this
    const at = Date.now()
    const file = await openPacked(folders.tools)
    await removeWhole(folders.volume, folders.tools)
    if (file) host.installs?.keepTools(release.ownerId, release.appId, { key: this.#key!, at, ...file })
  }
}

const why = {
  other: 'the image, the command or the environment of builds has changed',
  damaged: 'that of the last build was damaged',
  unverified: 'that of the last build could not be verified',
} as const

/** What a build has packed. It may have replaced that by anything, and nothing of it runs any more. */
async function openPacked(path: string) {
  const folder = await AppFolder.open(path)
  try {
    const file = await open(folder.at(newCacheName), untrustedFileFlags)
    const stats = await file.stat()
    if (stats.isFile() && stats.size > 0) return { file, bytes: stats.size }
    await file.close()
    return null
  } catch (error) {
    if (vanished.has(codeOf(error))) return null
    throw error
  } finally {
    await folder.close()
  }
}
