import { removeApp } from '../db/app-creation.ts'
import * as apps from '../db/apps.ts'
import { type Db, transaction } from '../db/database.ts'
import * as deployments from '../db/deployments.ts'
import { findHost } from '../db/hosts.ts'
import * as operations from '../db/operations.ts'
import { diskMbFor } from '../policy/sizes.ts'
import type { ContainerExit, LaneOperation, Release, StartedContainer } from './release.ts'

export interface Failure {
  code: string
  message: string
}

export interface RecordsOptions {
  db: Db
  appsDomain: string
  diskMbPer256Mb: number
}

export type Records = ReturnType<typeof recordActivities>

/** Outcomes into Postgres. Each is one transaction and may be repeated. */
export function recordActivities({ db, appsDomain, diskMbPer256Mb }: RecordsOptions) {
  async function decide(operation: operations.OperationRow): Promise<LaneOperation | null> {
    const app = await apps.loadApp(db, operation.target_id)
    const host = app && (await findHost(db, app.host_id))
    if (!app || !host) return null
    const deployment = await deployments.findByOperation(db, operation.id)
    const release: Release = {
      appId: app.id,
      ownerId: app.owner_id,
      hostId: app.host_id,
      hostAddress: host.address,
      number: deployment?.release ?? app.release,
      uid: app.uid,
      ramMb: app.ram_mb,
      cpus: app.cpu,
      diskMb: diskMbFor(app.ram_mb, diskMbPer256Mb),
      language: app.language,
      runtimeVersion: app.runtime_version,
      main: app.main,
      start: app.start_command,
      hostname: app.subdomain ? `${app.subdomain}.${appsDomain}` : null,
      segmentId: deployment?.segment_id ?? null,
      deploymentId: deployment?.id ?? null,
    }
    // A restart that is claimed anew, by a lane after a lost one, finds its own mark.
    const wasRunning = app.status === 'running' || (app.status === 'restarting' && app.desired_state === 'running')
    return { id: operation.id, kind: operation.kind, wasDesired: app.desired_state, wasRunning, release }
  }

  return {
    /** The next operation of an application with all its decisions, or null when nothing waits. */
    async claimNext(appId: string): Promise<LaneOperation | null> {
      for (;;) {
        const operation = await operations.claimNext(db, appId)
        if (!operation) return null
        const decided = await decide(operation)
        if (decided) return decided
        // The application went away while this waited: true for the caller, and final.
        const outcome = { state: 'error', code: 'APP_NOT_FOUND', message: 'The application was deleted.' } as const
        await operations.finish(db, operation.id, outcome)
      }
    },

    async deletionWaits(appId: string): Promise<boolean> {
      return operations.deletionWaits(db, appId)
    },

    async recordStatus(
      appId: string,
      status: apps.AppStatus,
      step: { operationId: string; words: string },
    ): Promise<void> {
      await apps.recordStatus(db, appId, status)
      await operations.recordStep(db, step.operationId, step.words)
    },

    /** The release serves: the application runs, its deployment succeeded, and whoever waits is told. */
    async releaseServes({ id, release }: LaneOperation, started: StartedContainer): Promise<void> {
      await transaction(db, async trx => {
        await apps.recordStarted(trx, release.appId, {
          ...started,
          release: release.number,
          startedAt: new Date(started.startedAt),
        })
        await trx('apps')
          .where({ id: release.appId })
          .whereNull('provisioned_at')
          .update({ provisioned_at: trx.fn.now() })
        if (release.deploymentId) await deployments.record(trx, release.deploymentId, { state: 'success' })
        await operations.finish(trx, id, { state: 'success' })
      })
    },

    /** The program is in place but does not stay up: the application stays, stopped, so that its logs can be read. */
    async releaseFailed({ id, release }: LaneOperation, exit: ContainerExit, failure: Failure): Promise<void> {
      await transaction(db, async trx => {
        await trx('apps')
          .where({ id: release.appId })
          .update({ release: release.number, container_id: exit.containerId, provisioned_at: trx.fn.now() })
        await apps.recordStopped(trx, release.appId, endOf(exit))
        if (release.deploymentId) await deployments.record(trx, release.deploymentId, { state: 'error', ...failure })
        await operations.finish(trx, id, { state: 'error', ...failure })
      })
    },

    /** Nothing of the application is left at its host: memory, name and archive are free again, the reason stays. */
    async provisioningFailed({ id, release }: LaneOperation, failure: Failure): Promise<void> {
      await transaction(db, async trx => {
        if (release.deploymentId) await deployments.record(trx, release.deploymentId, { state: 'error', ...failure })
        await operations.finish(trx, id, {
          state: failure.code === 'DEPLOY_CANCELLED' ? 'cancelled' : 'error',
          ...failure,
        })
        await removeApp(trx, release.appId)
      })
    },

    /** What a stop or start on purpose wants from now on. */
    async recordDesired(appId: string, desired: 'running' | 'stopped'): Promise<void> {
      await apps.recordDesired(db, appId, desired)
    },

    async appStarted({ id, release }: LaneOperation, started: StartedContainer): Promise<void> {
      await transaction(db, async trx => {
        await apps.recordDesired(trx, release.appId, 'running')
        await apps.recordStarted(trx, release.appId, {
          ...started,
          release: release.number,
          startedAt: new Date(started.startedAt),
        })
        await operations.finish(trx, id, { state: 'success' })
      })
    },

    async appStopped({ id, release }: LaneOperation, exit: ContainerExit): Promise<void> {
      await transaction(db, async trx => {
        await apps.recordStopped(trx, release.appId, endOf(exit))
        await operations.finish(trx, id, { state: 'success' })
      })
    },

    /** The container is gone although the operation wanted it to run. */
    async recordStopped(appId: string, exit: ContainerExit): Promise<void> {
      await apps.recordStopped(db, appId, endOf(exit))
    },

    /** The point of no return of a deletion: what is left at the host is only rubbish from here. */
    async appDeleted(appId: string): Promise<void> {
      await removeApp(db, appId)
    },

    async finish(operationId: string, outcome: operations.Outcome): Promise<void> {
      await operations.finish(db, operationId, outcome)
    },
  }
}

function endOf(exit: ContainerExit): apps.Exit {
  return { code: exit.code, oom: exit.oom, at: new Date(exit.at) }
}
