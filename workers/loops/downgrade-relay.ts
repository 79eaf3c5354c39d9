import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { listOverdueDowngrades, type OverdueDowngrade } from '../../db/accounts/downgrades.ts'
import type { Db } from '../../db/database.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import type { Downgrades } from '../../workflows/client.ts'
import { downgradeId } from '../../workflows/ids.ts'
import { workflowRun } from '../temporal/workflow-runs.ts'
import { endStuckRun, wakeEach } from './waking.ts'

/** How long a step may be due before its wake-up counts as lost. */
const overdueSeconds = 2

export interface DowngradeRelayOptions {
  db: Db
  client: Client
  downgrades: Downgrades
  log: Logger
}

/**
 * Wakes due steps to a lower plan, as `LaneRelay` wakes lanes: a step that cannot be woken does not delay others, and one whose workflow
 * task fails is restarted. Waking a running step does no harm, so any process may do it.
 */
export class DowngradeRelay {
  readonly #backoff = new Backoff(relay.backoff)
  readonly #options: DowngradeRelayOptions

  constructor(options: DowngradeRelayOptions) {
    this.#options = options
  }

  /** Runs one round; resolves to the number of woken steps. Rejects only when Postgres does not answer. */
  async round(): Promise<number> {
    const { db, log } = this.#options
    const overdue = await listOverdueDowngrades(db, overdueSeconds, this.#backoff.waiting())
    return wakeEach(overdue, {
      backoff: this.#backoff,
      idOf: ({ userId }) => userId,
      wake: step => this.#wake(step),
      onError: ({ userId }, err) => log.warn({ err, userId }, 'relay: a downgrade could not be woken, will try again'),
    })
  }

  async #wake({ userId, seconds }: OverdueDowngrade): Promise<boolean> {
    const { client, downgrades, log } = this.#options
    const run = seconds > relay.stuckSeconds ? await workflowRun(client, downgradeId(userId)) : undefined
    if (await endStuckRun(client, downgradeId(userId), run))
      log.error({ userId, runId: run?.runId, failedTasks: run?.failedTasks }, 'relay: restarting a stuck downgrade')
    await downgrades.wake(userId)
    log.info({ userId }, 'relay: downgrade woken')
    return true
  }
}
