import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { type OverdueDowngrade, overdueDowngrades } from '../../db/accounts/downgrades.ts'
import type { Db } from '../../db/database.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import { failuresInARow } from '../../policy/rounds.ts'
import type { Downgrades } from '../../workflows/client.ts'
import { downgradeId } from '../../workflows/ids.ts'
import { workflowRun } from '../temporal/workflow-runs.ts'

/** A step may be due this long before its wake-up counts as lost. */
const overdueSeconds = 2

export interface DowngradeRelayOptions {
  db: Db
  client: Client
  downgrades: Downgrades
  log: Logger
}

/**
 * Wakes steps to a lower plan that are due, as `LaneRelay` wakes lanes: one that cannot be woken holds up no other, and one whose
 * workflow task fails is started anew. Waking one that runs already does no harm, so any process may.
 */
export class DowngradeRelay {
  readonly #backoff = new Backoff(relay.backoff)
  readonly #options: DowngradeRelayOptions

  constructor(options: DowngradeRelayOptions) {
    this.#options = options
  }

  /** One round; resolves to how many were woken. Rejects only when Postgres does not answer. */
  async round(): Promise<number> {
    const { db, log } = this.#options
    const overdue = await overdueDowngrades(db, overdueSeconds, this.#backoff.waiting())
    this.#backoff.forgetOthers(overdue.map(({ userId }) => userId))
    let woken = 0
    let failures = 0
    for (const step of overdue) {
      this.#backoff.seen(step.userId)
      try {
        await this.#wake(step)
        woken++
        failures = 0
      } catch (error) {
        log.warn({ err: error, userId: step.userId }, 'relay: the downgrade could not be woken, will try again')
        // Then it is Temporal that is away.
        if (++failures === failuresInARow) break
      }
    }
    return woken
  }

  async #wake({ userId, seconds }: OverdueDowngrade): Promise<void> {
    const { client, downgrades, log } = this.#options
    const run = seconds > relay.stuckSeconds ? await workflowRun(client, downgradeId(userId)) : undefined
    if (run?.status === 'RUNNING' && run.failedTasks >= relay.stuckTasks) {
      // The row knows all that it did.
      const { runId, failedTasks } = run
      await client.workflow.getHandle(downgradeId(userId), runId).terminate('Its workflow task fails; begun anew.')
      log.error({ userId, runId, failedTasks }, 'relay: a stuck downgrade is begun anew')
    }
    await downgrades.wake(userId)
    log.info({ userId }, 'relay: downgrade woken')
  }
}
