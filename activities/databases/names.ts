/** Names of what belongs to one database on its host. The generation is that of its volume: a restore makes one next to the old one. */
export interface DatabaseName {
  id: string
  generation: number
}

/** Id of the volume (activities/volumes/port.ts). */
export const databaseVolume = ({ id, generation }: DatabaseName): string => `${id}-${generation}`

export const databaseContainerName = ({ id, generation }: DatabaseName): string => `berth-db-${id}-${generation}`

/** The container of an engine that works on the volume without reachable ports, or of a step that makes the data folder. */
export const databaseJobName = (database: DatabaseName): string => `${databaseContainerName(database)}-job`

/** The database that a volume belongs to; null for the volume of an application. */
export function databaseOfVolume(volumeId: string): DatabaseName | null {
  const [, id, generation] = /^([0-9a-f]{32})-(\d{1,9})$/.exec(volumeId) ?? []
  return id && generation ? { id, generation: Number(generation) } : null
}

/** Value of the label `role` of a container that serves a database. */
export const databaseRole = 'database'

/** The same of a container that runs one step of an operation, without a network. */
export const databaseJobRole = 'database-job'
