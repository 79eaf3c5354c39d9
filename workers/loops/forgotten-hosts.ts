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

/** Applications per round. */
const maxApps = 100

/**
 * Settles applications of forgotten hosts, one at a time: it first ends their operations in Postgres, so that their lanes can write
 * nothing more, then the lanes, which might wait for the host forever, and finally marks the applications. If it is killed anywhere, the
 * next round repeats it. Resolves to the number of settled applications.
 */
export async function settleForgotten({ db, client, log }: SettlingOptions): Promise<number> {
  let settled = 0
  let failures = 0
  for (const app of await listUnsettledApps(db, { limit: maxApps })) {
    try {
      const ended = await endOperationsOfLostApp(db, app)
      await endLane(client, app)
      await settleLostApp(db, app)
      log.warn({ appId: app.id, hostId: app.host_id, ended }, 'an application was lost with its host')
      settled++
      failures = 0
    } catch (error) {
      log.warn({ err: error, appId: app.id }, 'an application of a forgotten host could not be settled, will try again')
      if (++failures === failuresInARow) break
    }
  }
  return settled
}

/** Ends the lane; the next operation starts a new one. */
async function endLane(client: Client, { id, host_id: hostId }: UnsettledApp): Promise<void> {
  const reason = `Its host ${hostId} was forgotten.`
  const ending = () => client.workflow.getHandle(laneId(id)).terminate(reason)
  await client.withDeadline(Date.now() + 3000, ending).catch(error => {
    if (!(error instanceof WorkflowNotFoundError)) throw error
  })
}
