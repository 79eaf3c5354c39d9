import { type Db, transaction } from '../../../db/database.ts'
import { storeCertificates } from '../../../db/databases/authorities.ts'
import { removeDatabase } from '../../../db/databases/database-creation.ts'
import * as databases from '../../../db/databases/databases.ts'
import { beginRotation } from '../../../db/databases/password-rotation.ts'
import type { DatabaseOperationKind, OperationRow } from '../../../db/operations/operation-kinds.ts'
import {
  claimNextOperation,
  findOperationsToCancel,
  finishOperation,
  type OperationOutcome,
} from '../../../db/operations/operations.ts'
import { cpusFor } from '../../../policy/apps/sizes.ts'
import type { SealKeys } from '../../../policy/seal.ts'
import type { Lanes } from '../../../workflows/client.ts'
import { Wakes } from './scripted-lanes.ts'

export type DatabaseOperationRow = OperationRow<DatabaseOperationKind>

/** What owners read of a database that a scripted lane has created, PEM. */
export const scriptedCertificate = (databaseId: string): string => `certificate of ${databaseId}`

interface Lane {
  busy: boolean
  woken: boolean
  /** Ends the creation that runs. */
  cancel?: () => void
}

/**
 * Lanes of databases that end what is queued as the test says, one at a time and deletions first, and write down what the real ones
 * write (`test/contracts/database-lanes.ts`). A creation ends when its cancellation is requested.
 */
export class ScriptedDatabaseLanes extends Wakes implements Lanes {
  outcome: (operation: DatabaseOperationRow) => OperationOutcome | Promise<OperationOutcome> = () => ({
    state: 'success',
  })
  /** Resolves at once, unless a test holds what was requested of a database that was cancelled. */
  beforeUndo: () => Promise<void> = async () => {}
  readonly #db: Db
  readonly #keys: SealKeys
  readonly #lanes = new Map<string, Lane>()

  constructor(db: Db, keys: SealKeys) {
    super()
    this.#db = db
    this.#keys = keys
  }

  /** Resolves before anything starts. */
  async wake(databaseId: string): Promise<void> {
    this.hear(databaseId)
    const lane = this.#lanes.get(databaseId) ?? { busy: false, woken: false }
    this.#lanes.set(databaseId, lane)
    lane.woken = true
    this.unwatched(this.#cancelRequested(databaseId, lane))
    if (!lane.busy) this.unwatched(this.#run(databaseId, lane))
  }

  async #cancelRequested(id: string, lane: Lane): Promise<void> {
    if ((await findOperationsToCancel(this.#db, { type: 'database', id })).length > 0) lane.cancel?.()
  }

  async #run(id: string, lane: Lane): Promise<void> {
    lane.busy = true
    try {
      while (lane.woken) {
        lane.woken = false
        const operation = await claimNextOperation(this.#db, { type: 'database', id })
        if (!operation) continue
        lane.woken = true
        await this.#end(operation, lane)
      }
    } finally {
      lane.busy = false
    }
  }

  async #end(operation: DatabaseOperationRow, lane: Lane): Promise<void> {
    const { id, kind, target_id: databaseId } = operation
    const cancelled = new Promise<OperationOutcome>(resolve => {
      if (kind === 'create')
        lane.cancel = () => resolve({ state: 'cancelled', code: 'DATABASE_CREATION_FAILED', message: 'Cancelled.' })
    })
    void this.#cancelRequested(databaseId, lane)
    const outcome = await Promise.race([this.outcome(operation), cancelled])
    lane.cancel = undefined
    if (outcome.state === 'cancelled') await this.beforeUndo()
    await transaction(this.#db, async trx => {
      if (outcome.state === 'success') await this.#record(trx, operation)
      if (outcome.code === 'CONTAINER_ALREADY_STOPPED')
        await databases.recordDatabaseDesired(trx, databaseId, 'stopped')
      await finishOperation(trx, id, outcome)
      if (kind === 'create' && outcome.state !== 'success') await removeDatabase(trx, databaseId)
    })
  }

  /** What an operation that succeeded has changed. */
  async #record(trx: Db, { id: operationId, kind, target_id: id, input }: DatabaseOperationRow): Promise<void> {
    if (kind === 'delete') return removeDatabase(trx, id)
    if (kind === 'stop') {
      await databases.recordDatabaseDesired(trx, id, 'stopped')
      return databases.recordDatabaseStopped(trx, id, { code: 0, oom: false, at: new Date() })
    }
    if (kind === 'create' || kind === 'certify') await this.#certify(trx, id, kind === 'create' ? 1 : 2)
    if (kind === 'rotate') await beginRotation(trx, operationId, id)
    if (kind === 'resize') {
      const ramMb = Number(input.ramMb)
      await databases.recordDatabaseMemory(trx, id, { ramMb, cpu: cpusFor(ramMb), name: input.name })
      if ((await databases.loadDatabase(trx, id))?.status !== 'running') return
    }
    await databases.recordDatabaseStarted(trx, id, scriptedStart())
    await databases.recordDatabaseDesired(trx, id, 'running')
    await databases.recordDatabaseProvisioned(trx, id)
  }

  async #certify(trx: Db, id: string, issue: number): Promise<void> {
    const client = issue === 1 ? scriptedCertificate(id) : `${scriptedCertificate(id)} again`
    const endsAt = new Date(Date.now() + 397 * 86_400_000)
    const renewAt = new Date(Date.now() + 264 * 86_400_000)
    await storeCertificates(trx, id, this.#keys, { certificate: 'server certificate', client, endsAt, renewAt })
  }
}

export const scriptedStart = () => ({ containerId: 'scripted', startedAt: new Date(), bootId: 'scripted' })
