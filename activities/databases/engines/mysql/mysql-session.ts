import { type Connection, escape as escaped } from 'mysql2'
import type { LocalEngine } from '../../port.ts'
import { limitOfDefinitions, maxDefinitions, type ReadLimit } from '../read-limits.ts'
import { platformConnection } from './mysql-connection.ts'

/** The raw bytes of its columns, in the character set of each; null for NULL. */
export type RawRow = (Buffer | null)[]

/** A connection of the platform that reads contents. */
export interface MysqlSession {
  rows(statement: string): Promise<RawRow[]>
  /** Rows as they arrive, in batches: the engine waits while they are not taken. */
  batches(statement: string): AsyncIterable<RawRow[]>
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

/** Rejects with EngineUnavailable when the engine does not answer, or `work` rejects; with DumpPrevented when that reads too much but rows. */
export function mysqlSession<T>(
  engine: LocalEngine,
  seconds: number,
  work: (session: MysqlSession) => Promise<T>,
): Promise<T> {
  return platformConnection(engine, { seconds }, async (connection, stream) => {
    const limit = limitOfDefinitions(maxDefinitions(engine))
    limit.watch(stream)
    const session = sessionOf(connection, limit)
    for (const statement of preparation) await session.rows(statement)
    return work(session)
  })
}

const sessionOf = (connection: Connection, limit: ReadLimit): MysqlSession => ({
  rows: statement =>
    new Promise((done, failed) =>
      connection.query(raw(statement), (error, rows) => (error ? failed(error) : done(rows as unknown as RawRow[]))),
    ),
  async *batches(statement) {
    // Rows pass by batch by batch, and are no definitions.
    const countAgain = limit.lift()
    try {
      yield* batches(connection, statement)
    } finally {
      countAgain()
    }
  },
})

/** Values as the engine sends them. */
const raw = (sql: string) => ({ sql, rowsAsArray: true, typeCast: false })

const batchRows = 64

/** Not one by one, as the driver's stream has them: that costs more than the row itself. */
async function* batches(connection: Connection, statement: string): AsyncGenerator<RawRow[]> {
  let rows: RawRow[] = []
  let failure: unknown
  let isOver = false
  let wake = () => {}
  connection
    .query(raw(statement))
    .on('result', row => {
      rows.push(row as unknown as RawRow)
      if (rows.length >= batchRows) connection.pause()
      wake()
    })
    .on('error', error => {
      failure = error
      wake()
    })
    .on('end', () => {
      isOver = true
      wake()
    })
  for (;;) {
    if (rows.length > 0) {
      const batch = rows
      rows = []
      connection.resume()
      yield batch
    } else if (failure) throw failure
    else if (isOver) return
    else
      await new Promise<void>(resolve => {
        wake = resolve
      })
  }
}

/** A name as it stands in a statement. */
export const named = (name: string): string => `\`${name.replaceAll('`', '``')}\``

/** A text as it stands in a statement. */
export const quotedSql = (text: string): string => escaped(text)

export const textOfCell = (cell: Buffer | null | undefined): string => cell?.toString('utf8') ?? ''
