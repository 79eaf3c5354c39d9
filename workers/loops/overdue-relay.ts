import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { listOverdueDowngrades } from '../../db/accounts/downgrades.ts'
import type { Db } from '../../db/database.ts'
import { listOverdueDomains } from '../../db/domains/domain-looks.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import type { Domains, Downgrades } from '../../workflows/client.ts'
import { domainId, downgradeId } from '../../workflows/ids.ts'
import { workflowRun } from '../temporal/workflow-runs.ts'
import { endStuckRun, tryEach } from './waking.ts'

interface Overdue {
  id: string
  /** Since when it is due, in seconds. */
  seconds: number
}

/** Workflows of one kind, whose rows say when each is due. */
interface OverdueKind {
  /** As logs name it. */
  name: string
  list(db: Db, except: readonly string[]): Promise<Overdue[]>
  workflowId(id: string): string
  /** As fields of a log line. */
  fields(id: string): object
}

/** How long a look at a domain, and a step to a lower plan, may be due before its wake-up counts as lost. */
const [domainSeconds, downgradeSeconds] = [60, 2]

const domains: OverdueKind = {
  name: 'domain',
  async list(db, except) {
    const overdue = await listOverdueDomains(db, domainSeconds, except)
    return overdue.map(({ hostname: id, seconds }) => ({ id, seconds }))
  },
  workflowId: domainId,
  fields: hostname => ({ hostname }),
}

const downgrades: OverdueKind = {
  name: 'downgrade',
  async list(db, except) {
    const overdue = await listOverdueDowngrades(db, downgradeSeconds, except)
    return overdue.map(({ userId: id, seconds }) => ({ id, seconds }))
  },
  workflowId: downgradeId,
  fields: userId => ({ userId }),
}

interface OverdueRelayOptions {
  db: Db
  client: Client
  log: Logger
}

/**
 * Wakes workflows whose rows are overdue, as `LaneRelay` wakes lanes: one that cannot be woken does not delay others, and one whose
 * workflow task fails is restarted. Waking a running one does no harm, so any process may do it.
 */
class OverdueRelay {
  readonly #backoff = new Backoff(relay.backoff)
  readonly #kind: OverdueKind
  readonly #wakes: { wake(id: string): Promise<void> }
  readonly #options: OverdueRelayOptions

  constructor(kind: OverdueKind, wakes: { wake(id: string): Promise<void> }, options: OverdueRelayOptions) {
    this.#kind = kind
    this.#wakes = wakes
    this.#options = options
  }

  /** Runs one round; resolves to the number woken. Rejects only when Postgres does not answer. */
  async round(): Promise<number> {
    const { db, log } = this.#options
    const { name, list, fields } = this.#kind
    return tryEach(await list(db, this.#backoff.waiting()), {
      backoff: this.#backoff,
      idOf: ({ id }) => id,
      attempt: overdue => this.#wake(overdue),
      onError: ({ id }, err) => log.warn({ err, ...fields(id) }, `relay: a ${name} could not be woken, will try again`),
    })
  }

  async #wake({ id, seconds }: Overdue): Promise<boolean> {
    const { client, log } = this.#options
    const { name, fields } = this.#kind
    const workflowId = this.#kind.workflowId(id)
    const run = seconds > relay.stuckSeconds ? await workflowRun(client, workflowId) : undefined
    if (await endStuckRun(client, workflowId, run))
      log.error(
        { ...fields(id), runId: run?.runId, failedTasks: run?.failedTasks },
        `relay: restarting a stuck ${name}`,
      )
    await this.#wakes.wake(id)
    log.info(fields(id), `relay: ${name} woken`)
    return true
  }
}

/** Wakes host names whose look is overdue: also those of an emptied Temporal. */
export const domainRelay = (options: OverdueRelayOptions & { domains: Domains }): OverdueRelay =>
  new OverdueRelay(domains, options.domains, options)

/** Wakes due steps to a lower plan. */
export const downgradeRelay = (options: OverdueRelayOptions & { downgrades: Downgrades }): OverdueRelay =>
  new OverdueRelay(downgrades, options.downgrades, options)
