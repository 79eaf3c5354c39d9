import { readdir } from 'node:fs/promises'
import { activityInfo, cancellationSignal } from '@temporalio/activity'
import type { Db } from '../db/database.ts'
import * as deployments from '../db/deployments.ts'
import { runtimes } from '../policy/runtimes.ts'
import type { Archives } from './archive.ts'
import { type ContainerHost, type ContainerState, labels } from './container-host.ts'
import { appContainer, appContainerName, type HostTraits, stopGraceSeconds, tenantNetwork } from './container-spec.ts'
import { hosted, refusal } from './failures.ts'
import { exitOf, passGate, type Unhealthy } from './health-gate.ts'
import { installRelease } from './install.ts'
import type { ObjectStore } from './object-store.ts'
import type { ContainerExit, Release, StartedContainer } from './release.ts'
import { emptySource, exists, placeFirst, readPrepared, releaseFolders, writePrepared } from './release-files.ts'
import type { Volumes } from './volume.ts'

export type { Unhealthy } from './health-gate.ts'
export type AppHostActivities = ReturnType<typeof appHostActivities>

export interface AppHostOptions {
  db: Db
  engine: ContainerHost
  volumes: Volumes
  archives: Archives
  store: ObjectStore
  traits: HostTraits
  healthGateSeconds: number
  /** The user that owns every application's files, where the host may not give them one of their own (it is not root). */
  sharedUid: number | null
  /** Id of this boot of the machine. */
  bootId: string
}

/** What a container host does for one application. Every effect is named by ids, so that doing it twice is doing it once. */
export function appHostActivities(host: AppHostOptions) {
  const { db, engine, volumes, archives, store } = host
  const foldersOf = (release: Release) => releaseFolders(volumes.path(release.appId), release.number)
  const networkOf = (release: Release) => tenantNetwork(release.ownerId, host.traits.id)

  async function reached(release: Release, state: 'clone' | 'commit' | 'restarting'): Promise<void> {
    if (release.deploymentId) await deployments.record(db, release.deploymentId, { state })
  }

  async function run(release: Release): Promise<StartedContainer> {
    const folders = foldersOf(release)
    const uid = host.sharedUid ?? release.uid
    await volumes.ensure(release.appId, release.diskMb, uid)
    const dependencies = (await exists(folders.dependencies)) ? folders.dependencies : null
    const spec = appContainer({ ...release, uid }, { files: folders.files, dependencies }, {}, host.traits)
    await engine.ensureNetwork(networkOf(release))
    await engine.ensureImage(spec.image)
    const containerId = await engine.create(spec)
    await engine.start(spec.name)
    const state = await engine.inspect(spec.name)
    return {
      containerId,
      hostPort: state?.hostPort ?? null,
      startedAt: (state?.startedAt ?? new Date()).toISOString(),
      bootId: host.bootId,
    }
  }

  return hosted({
    /** Unpacks the archive of a release beside the application's files. */
    async prepareRelease(release: Release): Promise<{ needsInstall: boolean }> {
      const folders = foldersOf(release)
      await reached(release, 'clone')
      const uid = host.sharedUid ?? release.uid
      await volumes.ensure(release.appId, release.diskMb, uid)
      const done = await readPrepared(folders)
      if (done) return { needsInstall: done.install !== null }
      if (!release.segmentId) throw refusal('DEPLOY_FAILED', 'The deployment has no archive.')
      const owner = host.sharedUid === null ? { uid, gid: uid } : null
      await emptySource(folders, owner)
      const archive = await store.open(release.segmentId)
      await archives.unpack(archive, folders.source, owner).finally(() => archive.close())
      const files = await readdir(folders.source)
      const install = runtimes[release.language].install({ files, main: release.main })
      await writePrepared(folders, { install })
      return { needsInstall: install !== null }
    },

    /** Runs the install step in a limited build container; its output is the deployment's log. */
    async installDependencies(release: Release): Promise<void> {
      const folders = foldersOf(release)
      const prepared = await readPrepared(folders)
      if (!prepared?.install) return
      await installRelease(host, release, folders, prepared.install, cancellationSignal())
    },

    async placeFiles(release: Release): Promise<void> {
      await reached(release, 'commit')
      await placeFirst(foldersOf(release))
    },

    async startRelease(release: Release): Promise<StartedContainer> {
      await reached(release, 'restarting')
      return run(release)
    },

    /** Null when the program answers or stays alive; else why it is not let through. */
    async passHealthGate(release: Release, started: StartedContainer): Promise<Unhealthy | null> {
      const target = started.hostPort === null ? null : { address: release.hostAddress, port: started.hostPort }
      return passGate(engine, {
        container: appContainerName(release),
        target,
        timeoutSeconds: host.healthGateSeconds,
        signal: cancellationSignal(),
      })
    },

    /** Starts the container of the release that serves; one that the engine has lost is made again. */
    async startApp(release: Release): Promise<StartedContainer> {
      const state = await engine.inspect(appContainerName(release))
      if (state?.running && firstAttempt()) throw refusal('CONTAINER_ALREADY_STARTED', 'The application runs already.')
      return run(release)
    },

    /** Ends the container and tells how it ended. `mustRun` refuses to stop what does not run. */
    async stopApp(release: Release, { mustRun }: { mustRun: boolean }): Promise<ContainerExit> {
      const state = await engine.inspect(appContainerName(release))
      if (mustRun && !state?.running && firstAttempt())
        throw refusal('CONTAINER_ALREADY_STOPPED', 'The application is stopped already.')
      if (state?.running) await engine.stop(appContainerName(release), stopGraceSeconds)
      return exitOf(await engine.inspect(appContainerName(release)))
    },

    /** Removes every container of the application, whatever its release or role. */
    async removeContainers(release: Release): Promise<void> {
      const containers: ContainerState[] = await engine.list({ [labels.app]: release.appId })
      await Promise.all(containers.map(container => engine.remove(container.name)))
    },

    /** Removes the application's volume with everything in it, and its owner's network when nothing else uses it. */
    async removeFiles(release: Release): Promise<void> {
      await volumes.remove(release.appId)
      const others = await engine.list({ [labels.host]: host.traits.id, [labels.owner]: release.ownerId })
      if (others.length === 0) await engine.removeNetwork(networkOf(release).name).catch(() => {})
    },
  })
}

/** False when an earlier attempt may have had its effect before its answer was lost. */
const firstAttempt = (): boolean => activityInfo().attempt === 1
