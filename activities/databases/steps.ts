import { cancellationSignal } from '@temporalio/activity'
import type { Db } from '../../db/database.ts'
import {
  type DatabaseFacts,
  type DatabaseOperationFacts,
  readDatabaseFacts,
} from '../../db/operations/database-facts.ts'
import type { DrillInput, UpgradeInput } from '../../db/operations/database-inputs.ts'
import { cpusFor } from '../../policy/apps/sizes.ts'
import { type DatabaseStepName, databaseSteps } from '../../policy/databases/database-steps.ts'
import { refusal } from '../failures.ts'
import type { AppLocks } from '../steps/app-locks.ts'
import { assertCurrentClaim, claimOfActivity, lostClaim } from '../steps/claims.ts'

/** What a host trusts of the input of a step: its operation and its database. `ownerId` only decides which account's slot it takes. */
export interface DatabaseStepInput {
  databaseId: string
  operationId: string
  ownerId: string
  /** The step undoes a change of memory or image: the engine gets what it had before. */
  back?: boolean
  /** The operation holds a snapshot slot of its host; lanes of an earlier version took none for a restore. */
  inSlot?: boolean
  /** The operation has no slot yet, and wants one that is free now. */
  takesFreeSlot?: boolean
}

/** A step of an operation according to Postgres. */
export interface DatabaseStep {
  operationId: string
  databaseId: string
  ownerId: string
  kind: string
  /** Whether the operation still runs. */
  running: boolean
  input: Record<string, unknown>
  /** Memory in MB that the database has in its row, whatever the operation gives it; null once it is deleted. */
  ramMbBefore: number | null
  /** Null once the database is deleted. */
  row: DatabaseFacts | null
  /** Rejects when the database is deleted. */
  database(): DatabaseFacts
}

export interface DatabaseStepsOptions {
  db: Db
  /** Locks by the id of a database, shared with the host watch. */
  locks: AppLocks
  hostId: string
  /** The user of all files on a host that is not root; null = each database has its own. */
  sharedUid: number | null
  /** Rejects when another process is this host now. */
  confirm?(): Promise<void>
}

/** What an operation gives the engine before the row has it: the memory of a resize, the image of an upgrade. A step that goes back gets the former. */
function changesOf(
  { kind, input }: DatabaseOperationFacts,
  { back = false }: DatabaseStepInput,
): Partial<DatabaseFacts> {
  if (kind === 'upgrade') {
    const { images } = input as UpgradeInput
    return images ? { imageId: back ? images.from : images.to } : {}
  }
  if (kind !== 'resize' || back) return {}
  const ramMb = Number(input.ramMb)
  return { ramMb, cpus: cpusFor(ramMb) }
}

/** Id of the host that an operation is done at: a drill has chosen its own. */
const hostOf = ({ kind, input, database }: DatabaseOperationFacts): unknown =>
  kind === 'drill' ? (input as unknown as DrillInput).drillHost : database?.hostId

/** While the operation runs; or also after it has ended, for a step that only removes. */
type Allowed = 'now' | 'late'

/**
 * Steps of operations of databases at their host: of a step's input only ids are trusted, and those only when its run of a lane holds this
 * operation, of a kind that has such a step, of a database of this host.
 */
export function guardedDatabaseSteps({ db, locks, hostId, sharedUid, confirm }: DatabaseStepsOptions) {
  async function check(name: DatabaseStepName, input: DatabaseStepInput, when: Allowed): Promise<DatabaseStep> {
    cancellationSignal().throwIfAborted()
    const { run, step } = claimOfActivity()
    const facts = await readDatabaseFacts(db, input.operationId)
    if (!facts || facts.databaseId !== input.databaseId || facts.claim !== run) throw lostClaim()
    if (when === 'now' && !(facts.running && facts.claimStep <= step)) throw lostClaim()
    const kinds: readonly string[] = databaseSteps[name]
    if (!kinds.includes(facts.kind)) throw refusal('ACTION_FAILED', `No ${facts.kind} has the step ${name}.`)
    if ((facts.database || facts.kind === 'drill') && hostOf(facts) !== hostId)
      throw refusal('ACTION_FAILED', `The database ${input.databaseId} is not on the host ${hostId}.`)
    if (when === 'now') await confirm?.()
    const { kind, databaseId, ownerId, running, input: operationInput } = facts
    const row = facts.database && {
      ...facts.database,
      uid: sharedUid ?? facts.database.uid,
      ...changesOf(facts, input),
    }
    return {
      operationId: input.operationId,
      databaseId,
      ownerId,
      kind,
      running,
      input: operationInput,
      ramMbBefore: facts.database?.ramMb ?? null,
      row,
      database() {
        if (!row) throw refusal('DATABASE_NOT_FOUND', 'The database was deleted.')
        return row
      },
    }
  }

  return {
    begin: (name: DatabaseStepName, input: DatabaseStepInput) => check(name, input, 'now'),

    /** Runs the work of a step under the lock of its database. */
    turn<T>(name: DatabaseStepName, input: DatabaseStepInput, work: (step: DatabaseStep) => Promise<T>): Promise<T> {
      return locks(input.databaseId, async () => work(await check(name, input, 'now')))
    },

    /** `turn`, for a step that may come after its operation has ended. */
    lateTurn<T>(
      name: DatabaseStepName,
      input: DatabaseStepInput,
      work: (step: DatabaseStep) => Promise<T>,
    ): Promise<T> {
      return locks(input.databaseId, async () => work(await check(name, input, 'late')))
    },

    /** Rejects when a step was given up; called just before an effect. */
    async assertCurrent(operationId: string): Promise<void> {
      await assertCurrentClaim(db, operationId)
      await confirm?.()
    },
  }
}
