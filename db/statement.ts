import { type Db, isUnavailable } from './database.ts'

interface Connection {
  /** Knex throws a connection away that carries this. */
  __knex__disposed?: unknown
  query(config: { name: string; text: string; values: unknown[]; query_timeout: number }): Promise<{ rows: unknown[] }>
}

/** A server that was stopped cannot cancel by its own clock; this one is ours, in milliseconds. */
const readTimeoutMs = 2500

/**
 * A statement of the hot path: parsed once per connection by Postgres and sent without the query builder, which costs about
 * as much as the query itself. Takes `$1` parameters; works on a pool and inside a transaction alike.
 */
export function statement<Row>(name: string, text: string): (db: Db, values: unknown[]) => Promise<Row[]> {
  return async (db, values) => {
    const connection: Connection = await db.client.acquireConnection()
    try {
      return (await connection.query({ name, text, values, query_timeout: readTimeoutMs })).rows as Row[]
    } catch (error) {
      // It may never answer again, and its answers would belong to the question before.
      if (isUnavailable(error)) connection.__knex__disposed = error
      throw error
    } finally {
      db.client.releaseConnection(connection)
    }
  }
}
