import type { Problem } from '../apps/app-problems.ts'
import { isErrorCode } from '../errors.ts'
import { maxCrashes, returnDelay } from './restarts.ts'

/** For the owner of a database whose host was forgotten. */
export const databaseLostWith = (hostId: string): string =>
  `The host ${hostId} is permanently lost, and with it this database. Delete it, and create another one.`

/** For the owner of a database that was still being created there. */
export const databaseLostInCreation = (hostId: string): string =>
  `The host ${hostId} was permanently lost before the database was created. Create it again; it will be placed on another host.`

/** What keeps a database from running for good; undefined when nothing does. */
export const problemOfDatabase = ({ lost_with: hostId }: { lost_with: string | null }): Problem | undefined =>
  hostId === null ? undefined : { code: 'CLUSTER_UNAVAILABLE', message: databaseLostWith(hostId) }

/** What decides whether the host of a database starts it again by itself. */
interface Down {
  status: string
  desired_state: string
  lost_with: string | null
  restarts: number
  restart_at: Date | null
}

/** Whether a database is down, and its host starts it again as soon as it can. */
export const awaitsStart = (database: Down): boolean =>
  ['exited', 'starting'].includes(database.status) &&
  database.desired_state === 'running' &&
  database.lost_with === null &&
  database.restart_at === null &&
  database.restarts < maxCrashes

/** Whether the failed start came after the last run ended, and so explains why the database is down. */
export const isOfThisEnd = ({ exitAt, failedAt }: { exitAt: Date | null; failedAt: Date | null }): boolean =>
  exitAt === null || (failedAt !== null && failedAt >= exitAt)

/** Of a database that awaits its start, by how the last one failed. Its port is promised to its clients: it gets no other one. */
export function problemOfStart(
  { port }: { port: number },
  { code, message }: { code: string; message: string },
): Problem {
  const why =
    code === 'CONTAINER_NETWORK_CONFLICT'
      ? `Another program on its host uses its port ${port}, which does not change.`
      : message
  const again = `Berth starts it again at least every ${returnDelay.maxSeconds / 60} minutes, once its host can.`
  return {
    code: isErrorCode(code) ? code : 'ACTION_FAILED',
    message: `The database is down, because its last start failed: ${why} ${again}`,
  }
}
