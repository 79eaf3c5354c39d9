import { type Connection, endIfSilent } from './connection.ts'
import type { Db } from './database.ts'

/** A stopped server cannot cancel by its own clock (2500 ms at the API, which ends first); this is the client's timeout, in milliseconds. */
const readTimeoutMs = 2700

/**
 * A statement of the hot path: Postgres parses it once per connection, and it is sent without the query builder, which costs about
 * as much as the query itself. Takes `$1` parameters; works on a pool and inside a transaction.
 */
export function statement<Row>(name: string, text: string): (db: Db, values: unknown[]) => Promise<Row[]> {
  return async (db, values) => {
    const connection: Connection = await db.client.acquireConnection()
    try {
      return (await connection.query({ name, text, values, query_timeout: readTimeoutMs })).rows as Row[]
    } catch (error) {
      endIfSilent(connection, error)
      throw error
    } finally {
      db.client.releaseConnection(connection)
    }
  }
}
