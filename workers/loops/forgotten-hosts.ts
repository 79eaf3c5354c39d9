import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import {
  endOperationsOfLost,
  listUnsettledTargets,
  settleLost,
  type UnsettledTarget,
} from '../../db/hosts/host-forgetting.ts'
import { failuresInARow } from '../../policy/rounds.ts'
import { laneOf, subjectOf } from './waking.ts'

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
 * the next round repeats it. Resolves to the number that it settled.
 */
export async function settleForgotten({ db, client, log }: SettlingOptions): Promise<number> {
  let settled = 0
  let failures = 0
  for (const target of await listUnsettledTargets(db, { limit: maxTargets })) {
    const subject = subjectOf(target)
    try {
      const ended = await endOperationsOfLost(db, target)
      await endLane(client, target)
      await settleLost(db, target)
      log.warn({ ...subject, hostId: target.host_id, ended }, 'lost with its host')
      settled++
      failures = 0
    } catch (error) {
      log.warn({ err: error, ...subject }, 'what a forgotten host had could not be settled, will try again')
      if (++failures === failuresInARow) break
    }
  }
  return settled
}

/** Ends the lane; the next operation starts a new one. */
async function endLane(client: Client, target: UnsettledTarget): Promise<void> {
  const reason = `Its host ${target.host_id} was forgotten.`
  const ending = () => client.workflow.getHandle(laneOf(target)).terminate(reason)
  await client.withDeadline(Date.now() + 3000, ending).catch(error => {
    if (!(error instanceof WorkflowNotFoundError)) throw error
  })
}
