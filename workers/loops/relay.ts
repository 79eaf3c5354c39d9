import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { undoUnconfirmed } from '../../db/acceptance.ts'
import { type Db, tryRoundLock } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { loop } from '../../lib/async/loop.ts'
import { acceptance } from '../../policy/acceptance.ts'
import { relay } from '../../policy/installation/relay.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { Domains, Downgrades, Lanes } from '../../workflows/client.ts'
import { workflowRun } from '../temporal/workflow-runs.ts'
import { settleForgotten } from './forgotten-hosts.ts'
import { domainRelay, downgradeRelay } from './overdue-relay.ts'
import { endStuckRun, laneOf, subjectOf, tryEach } from './waking.ts'

export interface RelayOptions {
  db: Db
  client: Client
  lanes: Lanes
  databaseLanes: Lanes
  downgrades: Downgrades
  domains: Domains
  log: Logger
  everySeconds?: number
}

/**
 * Repairs lost wake-ups until the signal aborts: the lanes of operations that are queued, that were cancelled and have not ended, or that
 * a lane has claimed which no longer runs, are signalled again. This is no Temporal schedule, which would be lost along with Temporal.
 * Also ends operations that wait for a forgotten host.
 */
export async function runRelay(
  { downgrades, domains, everySeconds = roundSeconds.relay, ...options }: RelayOptions,
  signal: AbortSignal,
): Promise<void> {
  const { db, log } = options
  const lanes = new LaneRelay(options)
  const steps = downgradeRelay({ ...options, downgrades })
  const names = domainRelay({ ...options, domains })
  const unfinished = new Backoff(relay.backoff)
  const unsettled = new Backoff(relay.backoff)
  const again = (error: unknown) => log.warn({ err: error }, 'relay: will try again')
  const failed = (operationId: string, err: unknown) => {
    unfinished.seen(operationId)
    log.warn({ err, operationId }, 'relay: an unconfirmed or unclaimed operation could not be ended, will try again')
  }
  const round = async () => {
    await undoUnconfirmed(db, acceptance.forgottenSeconds, failed, unfinished.waiting()).catch(again)
    await settleForgotten(options, unsettled).catch(again)
    await lanes.round().catch(again)
    await steps.round().catch(again)
    await names.round().catch(again)
  }
  await loop(round, { signal, everyMs: everySeconds * 1000, onError: again })
}

/** Wakes lanes. Each target is tried again after a growing delay, so that none of them delays the others. */
export class LaneRelay {
  private readonly backoff = new Backoff(relay.backoff)
  private readonly options: Omit<RelayOptions, 'downgrades' | 'domains' | 'everySeconds'>

  constructor(options: Omit<RelayOptions, 'downgrades' | 'domains' | 'everySeconds'>) {
    this.options = options
  }

  /** Runs one round; resolves to the number of woken lanes. Rejects only when Postgres does not answer. */
  async round(): Promise<number> {
    const { db, log } = this.options
    const { queuedSeconds, runningSeconds } = relay
    // Two workers may occasionally both do it: waking a lane twice does no harm.
    const waiting = await db.transaction(async trx =>
      (await tryRoundLock(trx, 'relay'))
        ? operations.listWaitingTargets(trx, { queuedSeconds, runningSeconds, except: this.backoff.waiting() })
        : [],
    )
    return tryEach(waiting, {
      backoff: this.backoff,
      idOf: ({ target_id }) => target_id,
      attempt: target => this.wakeTarget(target),
      onError: ({ target_type: type, target_id: id }, err) =>
        log.warn({ err, ...subjectOf({ type, id }) }, 'relay: a lane could not be woken, will try again'),
    })
  }

  private async wakeTarget({
    target_type: type,
    target_id: id,
    owner_id: ownerId,
    running,
    cancelling,
    seconds,
  }: operations.WaitingTarget): Promise<boolean> {
    const { client, lanes, databaseLanes, log } = this.options
    const [subject, workflowId] = [subjectOf({ type, id }), laneOf({ type, id })]
    // A recently queued target is woken without checking its lane: usually the wake-up was lost, and few lanes are stuck.
    const lane = running || seconds > relay.stuckSeconds ? await workflowRun(client, workflowId) : undefined
    if (await endStuckRun(client, workflowId, lane))
      log.error({ ...subject, runId: lane?.runId, failedTasks: lane?.failedTasks }, 'relay: restarting a stuck lane')
    // A lane looks for cancellations only when it is woken.
    else if (running && !cancelling && lane?.status === 'RUNNING') return false
    await (type === 'app' ? lanes : databaseLanes).wake(id, ownerId)
    log.info(subject, 'relay: lane woken')
    return true
  }
}
