import { settleDowngrade } from '../../../db/accounts/downgrades.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import * as apps from '../../../db/apps/apps.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { concurrentKinds, type OperationKind, type OperationRow } from '../../../db/operations/operation-kinds.ts'
import { claimNextOperation, finishOperation, type OperationOutcome } from '../../../db/operations/operations.ts'
import type { Plans } from '../../../policy/accounts/plans.ts'
import type { Downgrades, Lanes } from '../../../workflows/client.ts'

/** Wakes work in this process as Temporal does. Work that still runs when the file ends finds no database, and is abandoned. */
export class Wakes {
  /** Loses every wake-up. */
  asleep = false
  /** The file's tests have ended. */
  over = false
  readonly woken: string[] = []

  protected hear(id: string): void {
    this.woken.push(id)
    if (this.asleep) throw new Error('Temporal is away')
  }

  /** The process would end with 1, and not even say why. */
  protected unwatched(work: Promise<unknown>): void {
    work.catch(error => {
      if (!this.over) throw error
    })
  }
}

/** One application's lane, while it has something to do. */
interface Lane {
  busy: boolean
  woken: boolean
  readonly alongside: Set<OperationKind>
}

/**
 * Lanes that end what is queued as the test says, in the order of real ones, and write down what these write of commands
 * (`test/contracts/lanes.ts`). Rows of deployments and snapshots, and those of an application that is made, are left to the test.
 */
export class ScriptedLanes extends Wakes implements Lanes {
  outcome: (operation: OperationRow) => OperationOutcome | Promise<OperationOutcome> = () => ({ state: 'success' })
  readonly #db: Db
  readonly #lanes = new Map<string, Lane>()

  constructor(db: Db) {
    super()
    this.#db = db
  }

  /** Resolves before anything starts. */
  async wake(appId: string): Promise<void> {
    this.hear(appId)
    this.#look(appId)
  }

  #look(appId: string): void {
    const lane = this.#lanes.get(appId) ?? { busy: false, woken: false, alongside: new Set() }
    this.#lanes.set(appId, lane)
    lane.woken = true
    if (!lane.busy) this.unwatched(this.#run(appId, lane))
  }

  /** One at a time, oldest first, except what runs alongside others. */
  async #run(appId: string, lane: Lane): Promise<void> {
    lane.busy = true
    try {
      while (lane.woken) {
        lane.woken = false
        const operation = await claimNextOperation(this.#db, { type: 'app', id: appId }, [...lane.alongside])
        if (!operation) continue
        lane.woken = true
        if (!concurrentKinds.flat().includes(operation.kind)) {
          await this.#end(operation)
          continue
        }
        lane.alongside.add(operation.kind)
        const ended = this.#end(operation).finally(() => {
          lane.alongside.delete(operation.kind)
          this.#look(appId)
        })
        this.unwatched(ended)
      }
    } finally {
      lane.busy = false
    }
  }

  async #end(operation: OperationRow): Promise<void> {
    const outcome = await this.outcome(operation)
    await transaction(this.#db, async trx => {
      if (outcome.state === 'success') await record(trx, operation)
      // It is no longer wanted to run.
      if (outcome.code === 'CONTAINER_ALREADY_STOPPED')
        await apps.recordDesiredState(trx, operation.target_id, 'stopped')
      await finishOperation(trx, operation.id, outcome)
    })
  }
}

/** What a command that succeeded has changed. */
async function record(trx: Db, { kind, target_id: appId }: OperationRow): Promise<void> {
  if (kind === 'delete') return removeApp(trx, appId)
  if (kind === 'stop') {
    await apps.recordDesiredState(trx, appId, 'stopped')
    await apps.recordStopped(trx, appId, { code: 143, oom: false, at: new Date() })
  }
  if (kind !== 'start' && kind !== 'restart') return
  const app = await apps.loadApp(trx, appId)
  await apps.recordDesiredState(trx, appId, 'running')
  await apps.recordStarted(trx, appId, {
    release: app?.release ?? 1,
    containerId: 'scripted',
    hostPort: null,
    startedAt: new Date(),
    bootId: 'scripted',
  })
}

/** Steps to a lower plan that behave like real ones (`test/contracts/downgrades.ts`). */
export class ScriptedDowngrades extends Wakes implements Downgrades {
  readonly #db: Db
  readonly #plans: Plans

  constructor(db: Db, plans: Plans) {
    super()
    this.#db = db
    this.#plans = plans
  }

  /** Resolves before anything is done. */
  async wake(userId: string): Promise<void> {
    this.hear(userId)
    this.unwatched(this.#settle(userId))
  }

  /** Now, and when its code has run out. */
  async #settle(userId: string): Promise<void> {
    const leftMs = await settleDowngrade(this.#db, this.#plans, userId)
    if (leftMs === null || this.over) return
    setTimeout(() => this.over || this.unwatched(this.#settle(userId)), leftMs).unref()
  }
}
