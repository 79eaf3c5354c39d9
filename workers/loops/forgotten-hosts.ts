import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import {
  endOperationsOfLost,
  listUnsettledTargets,
  settleLost,
  type UnsettledTarget,
} from '../../db/hosts/host-forgetting.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import { laneOf, subjectOf, tryEach } from './waking.ts'

export interface SettlingOptions {
  db: Db
  client: Client
  log: Logger
}

/** Applications and databases per round. */
const maxTargets = 100

/**
 * Settles applications and databases of forgotten hosts, one at a time: it first ends their operations in Postgres, so that their lanes
 * can write nothing more, then the lanes, which might wait for the host forever, and finally marks the rows. If it is killed anywhere,
 * the next round repeats it. One that fails is tried again after a growing delay of `backoff`, so that it delays no other. Resolves to the
 * number that it settled.
 */
export async function settleForgotten(
  { db, client, log }: SettlingOptions,
  backoff: Backoff = new Backoff(relay.backoff),
): Promise<number> {
  const targets = await listUnsettledTargets(db, { limit: maxTargets, except: backoff.waiting() })
  return tryEach(targets, {
    backoff,
    idOf: ({ id }) => id,
    async attempt(target) {
      const ended = await endOperationsOfLost(db, target)
      await endLane(client, target)
      await settleLost(db, target)
      log.warn({ ...subjectOf(target), hostId: target.host_id, ended }, 'lost with its host')
      return true
    },
    onError: (target, err) =>
      log.warn({ err, ...subjectOf(target) }, 'what a forgotten host had could not be settled, will try again'),
  })
}

/** Ends the lane; the next operation starts a new one. */
async function endLane(client: Client, target: UnsettledTarget): Promise<void> {
  const reason = `Its host ${target.host_id} was forgotten.`
  const ending = () => client.workflow.getHandle(laneOf(target)).terminate(reason)
  await client.withDeadline(Date.now() + 3000, ending).catch(error => {
    if (!(error instanceof WorkflowNotFoundError)) throw error
  })
}
