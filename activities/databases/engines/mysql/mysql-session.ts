import { type Connection, escape as escaped } from 'mysql2'
import type { LocalEngine } from '../../port.ts'
import { platformConnection } from './mysql-connection.ts'

/** The raw bytes of its columns, in the character set of each; null for NULL. */
export type RawRow = (Buffer | null)[]

/** A connection of the platform that reads contents. */
export interface MysqlSession {
  rows(statement: string): Promise<RawRow[]>
  /** Rows as they arrive: the engine waits while they are not taken. */
  stream(statement: string): AsyncIterable<RawRow>
}

/** So that the same contents read the same, whatever the settings of the server. */
const preparation = [
  'SET NAMES utf8mb4',
  // Values come as they are stored.
  'SET character_set_results = NULL',
  "SET time_zone = '+00:00', sql_mode = '', sql_quote_show_create = 1, print_identified_with_as_hex = 1",
  // It may take a while until the next row is taken.
  'SET net_write_timeout = 3600, net_read_timeout = 3600, lock_wait_timeout = 60',
  'SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ',
]

/** Rejects with EngineUnavailable when the engine does not answer, or `work` rejects. */
export function mysqlSession<T>(
  engine: LocalEngine,
  seconds: number,
  work: (session: MysqlSession) => Promise<T>,
): Promise<T> {
  const raw = { rowsAsArray: true, typeCast: (field: { buffer(): Buffer | null }) => field.buffer() }
  return platformConnection(engine, { seconds, ...raw }, async connection => {
    const session = sessionOf(connection)
    for (const statement of preparation) await session.rows(statement)
    return work(session)
  })
}

const sessionOf = (connection: Connection): MysqlSession => ({
  rows: statement =>
    new Promise((done, failed) =>
      connection.query(statement, (error, rows) => (error ? failed(error) : done(rows as unknown as RawRow[]))),
    ),
  stream: statement => connection.query(statement).stream({ highWaterMark: 64 }),
})

/** A name as it stands in a statement. */
export const named = (name: string): string => `\`${name.replaceAll('`', '``')}\``

/** A text as it stands in a statement. */
export const quoted = (text: string): string => escaped(text)

export const textOfCell = (cell: Buffer | null | undefined): string => cell?.toString('utf8') ?? ''
