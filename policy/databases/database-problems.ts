import type { Problem } from '../apps/app-problems.ts'

/** For the owner of a database whose host was forgotten. */
export const databaseLostWith = (hostId: string): string =>
  `The host ${hostId} is permanently lost, and with it this database. Delete it, and create another one.`

/** For the owner of a database that was still being created there. */
export const databaseLostInCreation = (hostId: string): string =>
  `The host ${hostId} was permanently lost before the database was created. Create it again; it will be placed on another host.`

/** What keeps a database from running for good; undefined when nothing does. */
export const problemOfDatabase = ({ lost_with: hostId }: { lost_with: string | null }): Problem | undefined =>
  hostId === null ? undefined : { code: 'CLUSTER_UNAVAILABLE', message: databaseLostWith(hostId) }
