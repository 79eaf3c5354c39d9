import { revertConfig } from '../db/apps/app-configuration.ts'
import { removeApp } from '../db/apps/app-creation.ts'
import { recordProvisioned, recordRelease } from '../db/apps/app-releases.ts'
import * as apps from '../db/apps/apps.ts'
import type { Db } from '../db/database.ts'
import { waitForSlot } from '../db/operations/build-slots.ts'
import {
  claimNextOperationFor,
  type OperationClaim,
  readClaimFindings,
  showRestart,
} from '../db/operations/operation-claims.ts'
import * as operations from '../db/operations/operations.ts'
import { clearAppDamage, markUndoFailure } from '../db/operations/undo-failures.ts'
import type { Plans } from '../policy/accounts/plans.ts'
import { changeRecords } from './change-records.ts'
import type { EdgeActivities } from './edge-routes.ts'
import { endOutdatedRestart } from './health/outdated-restart.ts'
import { withLastLines } from './releases/build-failure.ts'
import { type DecisionOptions, decide } from './releases/decision.ts'
import { recordDeployment } from './releases/deployment-state.ts'
import { type Failure, failed, withCanceller } from './releases/failure-outcome.ts'
import { endOf } from './releases/health-gate.ts'
import type { ContainerExit, LaneOperation, StartedContainer } from './releases/release.ts'
import { snapshotRecords } from './snapshot-records.ts'
import { claimOfActivity, fenced, lostClaim, unlessLost } from './steps/claims.ts'
import { demandInTime } from './steps/in-time.ts'
import { placedFiles, purgeIfPlaced, type RouteNow } from './steps/placed-files.ts'
import { recordServing, startOf } from './steps/serving.ts'
import { endUnrunnable } from './steps/unrunnable.ts'

export interface RecordsOptions extends DecisionOptions {
  db: Db
  plans: Plans
  /** Default: left to the route keeper. */
  routeNow?: RouteNow
  /** As `routeNow`, for a container that was just started. */
  switchRoute?: EdgeActivities['switchRoute']
  /** The calling run of a lane, and its step. */
  claim?: () => OperationClaim
}

export type Records = ReturnType<typeof recordActivities>

/** Records outcomes in Postgres. Each is one transaction, may be repeated, and is refused once another run works on the operation. */
export function recordActivities(options: RecordsOptions) {
  const { db, plans, claim = claimOfActivity, routeNow = async () => {}, switchRoute = async () => {} } = options
  const fence = fenced(db, claim)

  /** The next operation that its lane can run; ends those that cannot run, with the reason. */
  async function claimRunnable(appId: string, inProgress: operations.OperationKind[]): Promise<LaneOperation | null> {
    for (;;) {
      const operation = await claimNextOperationFor(db, { type: 'app', id: appId }, claim(), inProgress)
      if (!operation) return null
      const [ended, decided, findings] = await Promise.all([
        endUnwanted(operation),
        decide(db, options, operation.id), // of a status that it does not show itself yet
        readClaimFindings(db, operation.id),
      ])
      if (ended) continue
      if (decided) return { ...decided, ...(await show(decided)), found: findings }
      // The application was deleted while this waited. A second deletion has succeeded with it.
      const deleted = { state: 'error', code: 'APP_NOT_FOUND', message: 'The application was deleted.' } as const
      const outcome = operation.kind === 'delete' ? ({ state: 'success' } as const) : deleted
      await fence(operation.id, trx => operations.finishOperation(trx, operation.id, outcome))
    }
  }

  /** Ends an operation that cannot run, or a restart for a health that has changed. False = it may run. */
  async function endUnwanted(operation: operations.OperationRow): Promise<boolean> {
    return (await endUnrunnable(db, plans, fence, operation)) || endOutdatedRestart(db, fence, operation)
  }

  /** A restart is shown from its claim on, so that its lane needs no step of its own for that. Its end reverts what is shown. */
  async function show(operation: LaneOperation): Promise<Pick<LaneOperation, 'shown'>> {
    if (operation.kind !== 'restart') return {}
    if (!(await showRestart(db, operation.id, claim()))) throw lostClaim()
    return { shown: true }
  }

  async function appStarted(operation: LaneOperation, started: StartedContainer): Promise<void> {
    await fence(operation, (trx, { id, release }) => recordServing(trx, id, release, started))
  }

  return {
    ...changeRecords(options, fence),
    ...snapshotRecords(db, fence),
    ...placedFiles(fence, routeNow),

    /** The next operation of an application with all its decisions, or null when none waits that may run alongside `underWay`. */
    async claimNext(
      appId: string,
      { underWay }: { underWay: operations.OperationKind[] },
    ): Promise<LaneOperation | null> {
      return (await claimRunnable(appId, underWay).catch(unlessLost)) ?? null
    },

    /** Ids of running operations to cancel: a deletion waits, or their cancellation was requested. */
    async toEnd(appId: string): Promise<string[]> {
      return operations.findOperationsToCancel(db, { type: 'app', id: appId })
    },

    /** Seconds until the caller of an operation gets its answer; null when the operation has no such deadline. */
    async secondsLeft(operationId: string): Promise<number | null> {
      return operations.secondsUntilAnswer(db, operationId)
    },

    async recordStep(operationId: string, words: string): Promise<void> {
      await fence(operationId, trx => operations.recordStep(trx, operationId, words))
    },

    /** Records that the operation waits for one of the host's build slots. */
    async waitForSlot(operation: LaneOperation): Promise<void> {
      await fence(operation, (trx, { id, release }) => waitForSlot(trx, id, release.hostId))
    },

    /** The deploy has failed and its changes are being undone. */
    async recordReturn(operation: LaneOperation): Promise<void> {
      await fence(operation, (trx, { id, release }) =>
        operations.recordStep(trx, id, operations.goingBack(release.hostId)),
      )
    },

    /** The previous version keeps serving, unchanged unless an undo failed: then its application is marked. */
    async deployFailed(operation: LaneOperation, reason: Failure): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        const failure = await withLastLines(trx, release.deploymentId, await withCanceller(trx, id, reason))
        await recordDeployment(trx, release, { state: 'error', ...failure })
        // Adopted by a step whose answer was lost.
        if (release.deploymentId) await revertConfig(trx, release.deploymentId)
        await purgeIfPlaced(trx, release.appId)
        if (reason.code === 'RESTORE_INTERRUPTED')
          await markUndoFailure(trx, { operationId: id, deploymentId: release.deploymentId, words: reason.message })
        await operations.finishOperation(trx, id, failed(failure))
      })
    },

    async recordStatus(
      appId: string,
      status: apps.AppStatus,
      step: { operationId: string; words: string },
    ): Promise<void> {
      await fence({ id: step.operationId, appId }, async trx => {
        await apps.recordStatus(trx, appId, status)
        await operations.recordStep(trx, step.operationId, step.words)
      })
    },

    /** The release serves: the application runs, its deployment succeeded, and waiting callers are notified. */
    async releaseServes(operation: LaneOperation, started: StartedContainer): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        await apps.recordStarted(trx, release.appId, startOf(release.number, started))
        await recordProvisioned(trx, release.appId)
        await apps.recordDesiredState(trx, release.appId, 'running')
        await clearAppDamage(trx, release.appId)
        await recordDeployment(trx, release, { state: 'success' })
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** The program is in place but does not stay up: the application stays, stopped, so that its logs can be read. */
    async releaseFailed(operation: LaneOperation, exit: ContainerExit, failure: Failure): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        await recordRelease(trx, release.appId, release.number, exit.containerId)
        await recordProvisioned(trx, release.appId)
        await apps.recordStopped(trx, release.appId, endOf(exit))
        await recordDeployment(trx, release, { state: 'error', ...failure })
        await operations.finishOperation(trx, id, { state: 'error', ...failure })
      })
    },

    /** Nothing of the application is left at its host: its memory, name and archive are released, the reason remains. */
    async provisioningFailed(operation: LaneOperation, reason: Failure): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        const failure = await withLastLines(trx, release.deploymentId, reason)
        await recordDeployment(trx, release, { state: 'error', ...failure })
        await operations.finishOperation(trx, id, failed(failure))
        await removeApp(trx, release.appId)
      })
    },

    /** The desired state after a requested stop or start. */
    async recordDesired(operation: LaneOperation, desired: 'running' | 'stopped'): Promise<void> {
      await fence(operation, (trx, { release }) => apps.recordDesiredState(trx, release.appId, desired))
    },

    appStarted,

    /** As `appStarted`, once the proxy has the route to it. Rejects while the proxy does not answer. */
    async appServes(operation: LaneOperation, started: StartedContainer): Promise<void> {
      await switchRoute(operation.release, started)
      await appStarted(operation, started)
    },

    async appStopped(operation: LaneOperation, exit: ContainerExit): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        await apps.recordStopped(trx, release.appId, endOf(exit))
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** A version that was stopped for a newer one runs again. */
    async recordStarted(operation: LaneOperation, number: number, started: StartedContainer): Promise<void> {
      await fence(operation, (trx, { release }) => apps.recordStarted(trx, release.appId, startOf(number, started)))
    },

    /** The container has ended although the operation wanted it to run. */
    async recordStopped(operation: LaneOperation, exit: ContainerExit): Promise<void> {
      await fence(operation, (trx, { release }) => apps.recordStopped(trx, release.appId, endOf(exit)))
    },

    /**
     * The point of no return of a deletion, which succeeds here: what is left at the host is garbage now. One that is refused leaves the
     * application as it was: its host makes the container anew.
     */
    async appDeleted(operation: LaneOperation): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        await demandInTime(
          trx,
          id,
          'DELETE_ERROR',
          'The deletion did not finish in time; the application was not deleted.',
        )
        await removeApp(trx, release.appId)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** The final outcome of an operation from its lane; an operation that the lane has lost, or that has ended, stays as it is. */
    async finish(operationId: string, outcome: operations.OperationOutcome): Promise<void> {
      await fence(operationId, async trx => {
        const { code, message = '' } = outcome
        const cancelled =
          code === 'DEPLOY_CANCELLED' && failed(await withCanceller(trx, operationId, { code, message }))
        await operations.finishOperation(trx, operationId, cancelled || outcome)
      }).catch(unlessLost)
    },
  }
}
