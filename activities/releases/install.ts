import { join } from 'node:path'
import * as deployments from '../../db/deploys/deployments.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { installSeconds } from '../../policy/hosts/host-slots.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { removeWhole } from '../app-files/trash.ts'
import { buildTraits } from '../builds/build-traits.ts'
import type { ContainerSpec } from '../containers/port.ts'
import { buildContainer, buildNetwork, type HostTraits } from '../containers/spec.ts'
import { refusal } from '../failures.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { runWithPackages } from '../packages/step.ts'
import { deploymentLog } from './deployment-log.ts'
import { keepDependencies, type Prepared, type ReleaseFolders } from './files.ts'
import { installFolder } from './install-plan.ts'
import type { Release } from './release.ts'

interface PlannedInstall extends Pick<Prepared, 'writtenLock' | 'isClean'> {
  /** Shell text. */
  install: string
  /** Records in what the step runs. */
  beforeRun?(ready: ReadyInstall, traits: HostTraits): Promise<void>
}

/** Runs the install step of a release among all its files, to its end. Throws BUILD_FAILED when it fails or exceeds its time. */
export async function installRelease(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  { install, writtenLock, isClean = false, beforeRun }: PlannedInstall,
  signal: AbortSignal,
  seconds: number = installSeconds,
): Promise<void> {
  const folder = await installFolder(folders)
  const traits = await buildTraits(host)
  const ready = await readyInstall(host, release, { install, folder, traits })
  await beforeRun?.(ready, traits)
  await runInstall(host, release, { ...ready, folder, isClean }, signal, seconds)
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

export interface InstallStep {
  /** Shell text. */
  install: string
  /** The folder that it runs in. */
  folder: string
  /** Of the host, for this build. */
  traits: HostTraits
}

/** The build container of a step whose image is at the host, and the id that this image has now; null when it was removed already. */
export interface ReadyInstall {
  spec: ContainerSpec
  imageId: string | null
}

/** Brings the image of an install step. */
export async function readyInstall(
  host: AppHostOptions,
  release: Release,
  { install, folder, traits }: InstallStep,
): Promise<ReadyInstall> {
  const { engine } = host
  const owned = { ...release, uid: host.sharedUid ?? release.uid }
  const disk = await host.disk?.(release.appId)
  const spec = { ...buildContainer(owned, folder, install, traits), disk }
  const log = logOf(host, release)
  try {
    await engine.ensureNetwork(buildNetwork(host.traits.id))
    await engine.ensureImage(spec.image, line => void log.add(`${line}\n`))
  } finally {
    await log.close()
  }
  return { spec, imageId: await engine.imageId(spec.image) }
}

interface InstallRun extends ReadyInstall {
  folder: string
  /** Further files and folders of the container. */
  binds?: ContainerSpec['binds']
  /** Without what the host has downloaded before. */
  isClean: boolean
}

/** Runs an install step in exactly the image that it was made ready with. Throws as `installRelease`. */
export async function runInstall(
  host: AppHostOptions,
  release: Release,
  { spec, imageId, folder, binds = [], isClean }: InstallRun,
  signal: AbortSignal,
  seconds: number = installSeconds,
): Promise<void> {
  const log = logOf(host, release)
  try {
    const run = { ...spec, image: imageId ?? spec.image, binds: [...spec.binds, ...binds] }
    const { exitCode, oom } = await withinTime(seconds, signal, deadline =>
      runWithPackages(isClean ? { ...host, packages: undefined } : host, {
        ...{ language: release.language, folder, spec: run, signal: deadline },
        add: text => log.add(text),
      }),
    )
    if (oom)
      throw refusal('BUILD_FAILED', `Installing the dependencies needed more than ${spec.memoryMb} MB of memory.`)
    if (exitCode !== 0) throw refusal('BUILD_FAILED', `Installing the dependencies ended with exit code ${exitCode}.`)
  } finally {
    await log.close()
  }
}

const logOf = ({ db }: Pick<AppHostOptions, 'db'>, { deploymentId }: Pick<Release, 'deploymentId'>) =>
  deploymentLog(async (text, maxBytes) =>
    deploymentId ? deployments.appendLog(db, deploymentId, text, maxBytes) : true,
  )

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
    throw tooSlow(seconds)
  }
}

export const tooSlow = (seconds: number) =>
  refusal('BUILD_FAILED', `Installing the dependencies took longer than ${seconds} s.`)
