import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import {
  endOperationsOfLostApp,
  listUnsettledApps,
  settleLostApp,
  type UnsettledApp,
} from '../../db/hosts/host-forgetting.ts'
import { failuresInARow } from '../../policy/rounds.ts'
import { laneId } from '../../workflows/ids.ts'

export interface SettlingOptions {
  db: Db
  client: Client
  log: Logger
}

/** Applications of one round. */
const most = 100

/**
 * Settles applications of forgotten hosts, one after the other: first what they wait for ends in Postgres, so that their lanes write
 * nothing any more, then the lanes, which may wait for the host for ever, and last they are marked. Killed anywhere, the next round
 * does it again. Resolves to how many were settled.
 */
export async function settleForgotten({ db, client, log }: SettlingOptions): Promise<number> {
  let settled = 0
  let failures = 0
  for (const app of await listUnsettledApps(db, { limit: most })) {
    try {
      const ended = await endOperationsOfLostApp(db, app)
      await endLane(client, app)
      await settleLostApp(db, app)
      log.warn({ appId: app.id, hostId: app.host_id, ended }, 'an application is lost with its host')
      settled++
      failures = 0
    } catch (error) {
      log.warn({ err: error, appId: app.id }, 'an application of a forgotten host is not settled yet, will try again')
      if (++failures === failuresInARow) break
    }
  }
  return settled
}

/** What comes next begins a new one. */
async function endLane(client: Client, { id, host_id: hostId }: UnsettledApp): Promise<void> {
  const reason = `Its host ${hostId} was forgotten.`
  const ending = () => client.workflow.getHandle(laneId(id)).terminate(reason)
  await client.withDeadline(Date.now() + 3000, ending).catch(error => {
    if (!(error instanceof WorkflowNotFoundError)) throw error
  })
}
