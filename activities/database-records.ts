import type { Db } from '../db/database.ts'
import { removeDatabase, takeAnotherPort } from '../db/databases/database-creation.ts'
import * as databases from '../db/databases/databases.ts'
import { beginRotation, revertRotation } from '../db/databases/password-rotation.ts'
import { readDatabaseFacts } from '../db/operations/database-facts.ts'
import { claimNextOperationFor, type OperationClaim, wasTakenOver } from '../db/operations/operation-claims.ts'
import type { DatabaseOperationKind } from '../db/operations/operation-kinds.ts'
import { hasFailedBefore } from '../db/operations/operation-lookups.ts'
import * as operations from '../db/operations/operations.ts'
import type { Plans } from '../policy/accounts/plans.ts'
import { cpusFor } from '../policy/apps/sizes.ts'
import { mustFit } from '../policy/databases/database-memory.ts'
import type { StartedDatabase } from './database-host.ts'
import { databaseActRecords } from './databases/act-records.ts'
import type { DatabaseOperation } from './databases/operation.ts'
import { databaseSnapshotRecords } from './databases/snapshot-records.ts'
import { refusal, refusing } from './failures.ts'
import { endOf } from './releases/health-gate.ts'
import type { ContainerExit } from './releases/release.ts'
import { claimOfActivity, fenced, unlessLost } from './steps/claims.ts'
import { demandInTime } from './steps/in-time.ts'
import { endUnrunnable } from './steps/unrunnable.ts'

export interface DatabaseRecordsOptions {
  db: Db
  plans: Plans
  /** Ports of databases, both included. */
  ports: { from: number; to: number }
  /** The calling run of a lane, and its step. */
  claim?: () => OperationClaim
}

export type DatabaseRecords = ReturnType<typeof databaseRecords>

/** Records outcomes of databases in Postgres. Each is one transaction, may be repeated, and is refused once another run works on the operation. */
export function databaseRecords({ db, plans, ports, claim = claimOfActivity }: DatabaseRecordsOptions) {
  const fence = fenced(db, claim)

  /** The next operation that its lane can run; ends those that cannot run, with the reason. */
  async function claimRunnable(
    databaseId: string,
    inProgress: DatabaseOperationKind[],
  ): Promise<DatabaseOperation | null> {
    for (;;) {
      const target = { type: 'database', id: databaseId } as const
      const operation = await claimNextOperationFor(db, target, claim(), inProgress)
      if (!operation) return null
      if (await endUnrunnable(db, plans, fence, operation)) continue
      const facts = await readDatabaseFacts(db, operation.id)
      if (facts?.database) {
        const { id, kind, ownerId, database, input } = facts
        const { hostId, status, desired: wasDesired, engine, ramMb: fromMb } = database
        const at = kind === 'drill' ? String(input.drillHost) : hostId
        return {
          ...{ id, kind, databaseId, ownerId, hostId: at, wasDesired, wasRunning: runsOrRestarts(status) },
          wasRestarting: status === 'restarting',
          isSameMemory: kind === 'resize' && Number(input.ramMb) === fromMb && !(await hasFailedBefore(db, target, id)),
          mustFit: kind === 'resize' && mustFit(engine, { fromMb, toMb: Number(input.ramMb) }),
          wasBegun: await wasTakenOver(db, id),
        }
      }
      const deleted = { state: 'error', code: 'DATABASE_NOT_FOUND', message: 'The database was deleted.' } as const
      const outcome = operation.kind === 'delete' ? ({ state: 'success' } as const) : deleted
      await fence(operation.id, trx => operations.finishOperation(trx, operation.id, outcome))
    }
  }

  const serves = async (trx: Db, databaseId: string, started: StartedDatabase) => {
    await databases.recordDatabaseStarted(trx, databaseId, { ...started, startedAt: new Date(started.startedAt) })
    await databases.recordDatabaseDesired(trx, databaseId, 'running')
  }

  return {
    ...databaseSnapshotRecords(db, fence, serves),
    ...databaseActRecords(fence, serves),

    /** The next operation of a database, or null when none waits that may run alongside `underWay`. */
    async claimNextOfDatabase(
      databaseId: string,
      { underWay }: { underWay: DatabaseOperationKind[] },
    ): Promise<DatabaseOperation | null> {
      return (await claimRunnable(databaseId, underWay).catch(unlessLost)) ?? null
    },

    /** Ids of running operations of a database to cancel: a deletion waits, or their cancellation was requested. */
    async databaseOperationsToEnd(databaseId: string): Promise<string[]> {
      return operations.findOperationsToCancel(db, { type: 'database', id: databaseId })
    },

    async recordDatabaseStatus(
      operation: DatabaseOperation,
      status: 'starting' | 'restarting' | 'deleting',
      words: string,
    ): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        await databases.recordDatabaseStatus(trx, databaseId, status)
        await operations.recordStep(trx, id, words)
      })
    },

    /** Gives a new database another port, because something else on its host has the one it was given. */
    async takeAnotherPort(operation: DatabaseOperation): Promise<void> {
      await fence(operation, (trx, { databaseId }) => refusing(takeAnotherPort(trx, databaseId, ports)))
    },

    /** The engine serves, with the settings that the operation wanted; waiting callers are notified. */
    async databaseServes(operation: DatabaseOperation, started: StartedDatabase): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        // Its caller never learns the new password.
        if (operation.kind === 'rotate')
          await demandInTime(trx, id, 'RESET_FAILED', 'The password was set too late, and the one before is set again.')
        // Its caller has read that it is cancelled.
        if (operation.kind === 'create' && (await operations.findOperation(trx, id))?.cancel_requested_at)
          throw refusal('DEPLOY_CANCELLED', cancelledWords)
        await serves(trx, databaseId, started)
        await databases.recordDatabaseProvisioned(trx, databaseId)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** The database has this memory, and its engine serves with it; null = it does not run, or had that memory already. */
    async databaseResized(operation: DatabaseOperation, started: StartedDatabase | null): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        await demandInTime(
          trx,
          id,
          'ACTION_FAILED',
          'The memory was changed too late, and the former one is set again.',
        )
        const { ramMb: requestedMb, name } = (await operations.findOperation(trx, id))?.input ?? {}
        const ramMb = Number(requestedMb)
        await databases.recordDatabaseMemory(trx, databaseId, { ramMb, cpu: cpusFor(ramMb), name })
        if (started) await serves(trx, databaseId, started)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** The engine serves again as before the operation, which has failed. */
    async databaseServesAgain(operation: DatabaseOperation, started: StartedDatabase): Promise<void> {
      await fence(operation, (trx, { databaseId }) => serves(trx, databaseId, started))
    },

    /** The desired state after a requested stop. */
    async recordDatabaseDesired(operation: DatabaseOperation, desired: 'running' | 'stopped'): Promise<void> {
      await fence(operation, (trx, { databaseId }) => databases.recordDatabaseDesired(trx, databaseId, desired))
    },

    async databaseStopped(operation: DatabaseOperation, exit: ContainerExit): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        await databases.recordDatabaseStopped(trx, databaseId, endOf(exit))
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** Nothing of a database whose creation failed is left at its host: its memory and port are free, the reason remains. */
    async creationFailed(operation: DatabaseOperation, { code, message }: { code: string; message: string }) {
      await fence(operation, async (trx, { id, databaseId }) => {
        const cancelled = { state: 'cancelled', code: 'DATABASE_CREATION_FAILED', message: cancelledWords } as const
        const failed = { state: 'error', code, message } as const
        await operations.finishOperation(trx, id, code === 'DEPLOY_CANCELLED' ? cancelled : failed)
        await removeDatabase(trx, databaseId)
      })
    },

    /**
     * The point of no return of a deletion, which succeeds here: what is left at the host is garbage now. One that is
     * refused leaves the database as it was: its host makes the container anew.
     */
    async databaseDeleted(operation: DatabaseOperation): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        await demandInTime(
          trx,
          id,
          'ACTION_FAILED',
          'The deletion did not finish in time; the database was not deleted.',
        )
        await removeDatabase(trx, databaseId)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** Gives the row its next password generation, once for each operation; resolves to the one before. */
    async beginRotation(operation: DatabaseOperation): Promise<number> {
      let before = 0
      await fence(operation, async (trx, { id, databaseId }) => {
        const rotation = await beginRotation(trx, id, databaseId)
        if (!rotation) throw refusal('DATABASE_NOT_FOUND', 'The database was deleted.')
        before = rotation.before
      })
      return before
    },

    /** Gives the row its earlier password generation back; resolves to the one that the operation wanted. */
    async revertRotation(operation: DatabaseOperation): Promise<number> {
      let generation = 0
      await fence(operation, async (trx, { id, databaseId }) => {
        generation = await revertRotation(trx, id, databaseId)
      })
      return generation
    },
  }
}

/** Only operations set `restarting`: one that another run starts again finds it set, and its engine is to serve at its end. */
const runsOrRestarts = (status: string): boolean => status === 'running' || status === 'restarting'

const cancelledWords = 'The creation took too long, or the database was deleted. Its host removes what is left of it.'
