import { join } from 'node:path'
import * as deployments from '../../db/deploys/deployments.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { installSeconds } from '../../policy/hosts/host-slots.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { removeWhole } from '../app-files/trash.ts'
import type { AppHostOptions } from '../app-host-options.ts'
import { buildTraits } from '../builds/build-traits.ts'
import type { ContainerSpec } from '../containers/port.ts'
import { buildContainer, buildNetwork, type HostTraits } from '../containers/spec.ts'
import { refusal } from '../failures.ts'
import { runWithPackages } from '../packages/step.ts'
import { deploymentLog } from './deployment-log.ts'
import { exists, keepDependencies, type Prepared, type ReleaseFolders } from './files.ts'
import { installFolder } from './install-plan.ts'
import type { Release } from './release.ts'

/** Runs the install step of a release among all its files, to its end. Throws BUILD_FAILED when it fails or exceeds its time. */
export async function installRelease(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  { install, writtenLock }: { install: string } & Pick<Prepared, 'writtenLock'>,
  signal: AbortSignal,
  seconds: number = installSeconds,
): Promise<void> {
  if (await exists(folders.dependencies)) return
  const folder = await installFolder(folders)
  await runInstall(host, release, { install, folder, traits: await buildTraits(host) }, signal, seconds)
  if (writtenLock) await removeWhole(folders.volume, join(folder, writtenLock))
  if (runtimes[release.language].dependencies) await finishInstall(host, release, folders, folder)
}

/** Gives the output of a step its place, once it is on the disk: whatever is found there after a power cut counts as whole. */
export async function finishInstall(
  { volumes }: Pick<AppHostOptions, 'volumes'>,
  { appId, language }: Pick<Release, 'appId' | 'language'>,
  folders: ReleaseFolders,
  ranIn: string,
): Promise<void> {
  await volumes.flush(appId)
  await keepDependencies(folders, ranIn, runtimes[language].dependencies!.from)
}

export interface InstallRun {
  /** Shell text. */
  install: string
  /** The folder that it runs in. */
  folder: string
  /** Of the host, for this build. */
  traits: HostTraits
  /** In exactly the image that its name stands for when it begins. */
  byId?: boolean
  /** Further files and folders of the container, with `byId`, once its image is known. */
  mounts?(spec: ContainerSpec, imageId: string): Promise<ContainerSpec['binds']>
}

/** Runs an install step in a build container. Resolves to its spec, and the id of its image with `byId`. Throws as `installRelease`. */
export async function runInstall(
  host: AppHostOptions,
  release: Release,
  { install, folder, traits, byId = false, mounts }: InstallRun,
  signal: AbortSignal,
  seconds: number = installSeconds,
): Promise<{ spec: ContainerSpec; imageId: string | null }> {
  const { db, engine } = host
  const owned = { ...release, uid: host.sharedUid ?? release.uid }
  const disk = await host.disk?.(release.appId)
  const spec = { ...buildContainer(owned, folder, install, traits), disk }
  const log = deploymentLog(async (text, maxBytes) =>
    release.deploymentId ? deployments.appendLog(db, release.deploymentId, text, maxBytes) : true,
  )
  try {
    await engine.ensureNetwork(buildNetwork(host.traits.id))
    await engine.ensureImage(spec.image, line => void log.add(`${line}\n`))
    await engine.remove(spec.name) // what a killed attempt left
    const imageId = byId ? await engine.imageId(spec.image) : null
    const mounted = imageId && mounts ? await mounts(spec, imageId) : []
    const run = { ...spec, image: imageId ?? spec.image, binds: [...spec.binds, ...mounted] }
    // What the host has downloaded before may be what this build is to be without.
    const isClean = await deployments.isCleanInstall(db, release.deploymentId)
    const { exitCode, oom } = await withinTime(seconds, signal, deadline =>
      runWithPackages(isClean ? { ...host, packages: undefined } : host, {
        ...{ language: release.language, folder, spec: run, signal: deadline },
        add: text => log.add(text),
      }),
    )
    if (oom)
      throw refusal('BUILD_FAILED', `Installing the dependencies needed more than ${spec.memoryMb} MB of memory.`)
    if (exitCode !== 0) throw refusal('BUILD_FAILED', `Installing the dependencies ended with exit code ${exitCode}.`)
    return { spec, imageId }
  } finally {
    await log.close()
  }
}

/** Throws BUILD_FAILED when the work was aborted by its deadline. */
async function withinTime<T>(
  seconds: number,
  signal: AbortSignal,
  work: (deadline: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = deadlineSignal(seconds * 1000, signal)
  try {
    return await work(deadline)
  } catch (error) {
    if (signal.aborted || error !== deadline.reason) throw error
    throw refusal('BUILD_FAILED', `Installing the dependencies took longer than ${seconds} s.`)
  }
}
