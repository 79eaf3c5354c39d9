import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import { listOverdueDomains, type OverdueDomain } from '../../db/domains/domain-looks.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import type { Domains } from '../../workflows/client.ts'
import { domainId } from '../../workflows/ids.ts'
import { workflowRun } from '../temporal/workflow-runs.ts'
import { endStuckRun, wakeEach } from './waking.ts'

/** How long a look may be due before its workflow counts as lost. */
const overdueSeconds = 60

export interface DomainRelayOptions {
  db: Db
  client: Client
  domains: Domains
  log: Logger
}

/** Wakes host names whose look is overdue, as `LaneRelay` wakes lanes: also those of an emptied Temporal. */
export class DomainRelay {
  readonly #backoff = new Backoff(relay.backoff)
  readonly #options: DomainRelayOptions

  constructor(options: DomainRelayOptions) {
    this.#options = options
  }

  /** Runs one round; resolves to the number of woken names. Rejects only when Postgres does not answer. */
  async round(): Promise<number> {
    const { db, log } = this.#options
    const overdue = await listOverdueDomains(db, overdueSeconds, this.#backoff.waiting())
    return wakeEach(overdue, {
      backoff: this.#backoff,
      idOf: ({ hostname }) => hostname,
      wake: domain => this.#wake(domain),
      onError: ({ hostname }, err) => log.warn({ err, hostname }, 'relay: a domain could not be woken, will try again'),
    })
  }

  async #wake({ hostname }: OverdueDomain): Promise<boolean> {
    const { client, domains, log } = this.#options
    const run = await workflowRun(client, domainId(hostname))
    if (await endStuckRun(client, domainId(hostname), run))
      log.error({ hostname, runId: run?.runId, failedTasks: run?.failedTasks }, 'relay: restarting a stuck domain')
    await domains.wake(hostname)
    log.info({ hostname }, 'relay: domain woken')
    return true
  }
}
