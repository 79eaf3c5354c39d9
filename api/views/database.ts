import type { DatabaseRow } from '../../db/databases/databases.ts'
import type { RestorableRange } from '../../policy/databases/point-in-time.ts'

/** Contract 12.7. */
export const databaseView = (database: DatabaseRow) => ({
  id: database.id,
  name: database.name,
  owner: database.owner_id,
  cluster: database.host_id,
  ram: database.ram_mb,
  type: database.engine,
  port: database.port,
  created_at: database.created_at.toISOString(),
})

/** The times that a database can be restored to (contract 12.25), oldest first. */
export const rangesView = (ranges: readonly RestorableRange[]) =>
  ranges.map(({ from, to }) => ({ from: from.toISOString(), to: to.toISOString() }))

/** The item of `GET /v2/users/me` (contract 3.2). */
export const databaseSummaryView = (database: DatabaseRow) => ({
  id: database.id,
  name: database.name,
  ram: database.ram_mb,
  type: database.engine,
  cluster: database.host_id,
  created_at: database.created_at.toISOString(),
})

/** What a client needs to connect. It exists in the answer only. */
export interface Credentials {
  password: string
  /** Base64 of PEM: key, certificate, authority. */
  certificate: string | null
  url: string
}

/** The answer of a creation (contract 12.5). */
export const createdDatabaseView = (database: DatabaseRow, { password, certificate, url }: Credentials) => ({
  id: database.id,
  name: database.name,
  memory: database.ram_mb,
  cpu: database.cpu,
  type: database.engine,
  password,
  certificate,
  connection_url: url,
  cluster: database.host_id,
})
