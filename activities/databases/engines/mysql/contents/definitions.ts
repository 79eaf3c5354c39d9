import { type MysqlSession, named, quotedSql, textOfCell } from '../mysql-session.ts'

/** Schemas of the server itself. */
const ownSchemas = "('mysql', 'sys', 'information_schema', 'performance_schema')"

export interface Column {
  name: string
  type: string
  /** Null: it has no character set. */
  charset: string | null
  generated: boolean
}

/** A statement that makes something, in its bytes, and the settings under which it was written. */
export interface Program {
  kind: 'FUNCTION' | 'PROCEDURE' | 'TRIGGER' | 'EVENT' | 'VIEW'
  name: string
  statement: Buffer
  charset: string
  collation: string
  /** Not of views. */
  sqlMode?: string
  /** Of its database when it was written. Not of views. */
  databaseCollation?: string
  /** Of events only. */
  timeZone?: string
  /** Of triggers only: when it fires among those of the same table, time and change, from 1. */
  place?: number
  /** The event ends at some time, and may be dropped or disabled later. */
  ends?: 'and is dropped' | 'and is kept'
}

/** One column of text for each row. */
async function texts(session: MysqlSession, statement: string): Promise<string[]> {
  return (await session.rows(statement)).map(([cell]) => textOfCell(cell))
}

export const databasesOf = (session: MysqlSession): Promise<string[]> =>
  texts(
    session,
    `SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ${ownSchemas} ORDER BY CAST(schema_name AS BINARY)`,
  )

export async function createDatabase(
  session: MysqlSession,
  name: string,
): Promise<{ statement: string; readOnly: boolean }> {
  const [row] = await session.rows(`SHOW CREATE DATABASE ${named(name)}`)
  const shown = textOfCell(row![1])
  const mark = ' /* READ ONLY=1 */'
  return { statement: shown.replace(mark, ''), readOnly: shown.endsWith(mark) }
}

/** Whether it `isTransactional`: a transaction sees each of its rows as it was when it began. */
export async function tablesOf(
  session: MysqlSession,
  database: string,
): Promise<{ name: string; isTransactional: boolean }[]> {
  const rows = await session.rows(
    `SELECT table_name, engine FROM information_schema.tables WHERE table_schema = ${quotedSql(database)} AND table_type = 'BASE TABLE' ORDER BY CAST(table_name AS BINARY)`,
  )
  return rows.map(([name, engine]) => ({ name: textOfCell(name), isTransactional: textOfCell(engine) === 'InnoDB' }))
}

/** The bytes of its statement. */
export async function createTable(session: MysqlSession, database: string, name: string): Promise<Buffer> {
  const [row] = await session.rows(`SHOW CREATE TABLE ${named(database)}.${named(name)}`)
  return row![1]!
}

export async function columnsOf(session: MysqlSession, database: string, table: string): Promise<Column[]> {
  const rows = await session.rows(
    `SELECT column_name, data_type, character_set_name, generation_expression <> '' FROM information_schema.columns
     WHERE table_schema = ${quotedSql(database)} AND table_name = ${quotedSql(table)} ORDER BY ordinal_position`,
  )
  return rows.map(([name, type, charset, generated]) => ({
    name: textOfCell(name),
    type: textOfCell(type),
    charset: charset ? textOfCell(charset) : null,
    generated: textOfCell(generated) === '1',
  }))
}

/** Functions, procedures and events of a database. */
export async function routinesOf(session: MysqlSession, database: string): Promise<Program[]> {
  const programs: Program[] = []
  const routines = await session.rows(
    `SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = ${quotedSql(database)}
     ORDER BY routine_type, CAST(routine_name AS BINARY)`,
  )
  for (const [type, name] of routines)
    programs.push(await shown(session, textOfCell(type) as Program['kind'], database, textOfCell(name)))
  return programs
}

/** In the order in which they fire. */
export async function triggersOf(session: MysqlSession, database: string): Promise<Program[]> {
  const programs: Program[] = []
  const triggers = await session.rows(
    `SELECT trigger_name, action_order FROM information_schema.triggers WHERE trigger_schema = ${quotedSql(database)}
     ORDER BY CAST(event_object_table AS BINARY), action_timing, event_manipulation, action_order`,
  )
  for (const [name, place] of triggers)
    programs.push({
      ...(await shown(session, 'TRIGGER', database, textOfCell(name))),
      place: Number(textOfCell(place)),
    })
  return programs
}

export async function eventsOf(session: MysqlSession, database: string): Promise<Program[]> {
  const programs: Program[] = []
  const events = await session.rows(
    `SELECT event_name, execute_at IS NOT NULL OR ends IS NOT NULL, on_completion FROM information_schema.events
     WHERE event_schema = ${quotedSql(database)} ORDER BY CAST(event_name AS BINARY)`,
  )
  for (const [name, ends, completion] of events) {
    const afterwards = textOfCell(completion) === 'PRESERVE' ? 'and is kept' : 'and is dropped'
    const event = await shown(session, 'EVENT', database, textOfCell(name))
    programs.push({ ...event, ...(textOfCell(ends) === '1' && { ends: afterwards }) })
  }
  return programs
}

/** Where in what SHOW CREATE answers the parts are. */
const layouts = {
  FUNCTION: { mode: 1, statement: 2, charset: 3, timeZone: null },
  PROCEDURE: { mode: 1, statement: 2, charset: 3, timeZone: null },
  TRIGGER: { mode: 1, statement: 2, charset: 3, timeZone: null },
  EVENT: { mode: 1, statement: 3, charset: 4, timeZone: 2 },
  VIEW: { mode: null, statement: 1, charset: 2, timeZone: null },
} as const

async function shown(session: MysqlSession, kind: Program['kind'], database: string, name: string): Promise<Program> {
  await session.rows(`USE ${named(database)}`)
  const [row] = await session.rows(`SHOW CREATE ${kind} ${named(name)}`)
  const { mode, statement, charset, timeZone } = layouts[kind]
  return {
    ...{ kind, name, statement: row![statement]! },
    ...{ charset: textOfCell(row![charset]), collation: textOfCell(row![charset + 1]) },
    ...(mode !== null && { sqlMode: textOfCell(row![mode]), databaseCollation: textOfCell(row![charset + 2]) }),
    ...(timeZone !== null && { timeZone: textOfCell(row![timeZone]) }),
  }
}

export interface View extends Program {
  database: string
  /** Otherwise it reads what is no more, and could not be made now. */
  usable: boolean
}

/** The views of these databases, each after those that it reads. */
export async function viewsOf(session: MysqlSession, databases: string[]): Promise<View[]> {
  const views = new Map<string, View>()
  for (const database of databases) {
    const rows = await session.rows(
      `SELECT table_name, view_definition FROM information_schema.views WHERE table_schema = ${quotedSql(database)} ORDER BY CAST(table_name AS BINARY)`,
    )
    for (const [name, query] of rows.map(row => row.map(textOfCell))) {
      const program = await shown(session, 'VIEW', database, name!)
      views.set(keyOf(database, name!), { database, usable: await canBePrepared(session, query!), ...program })
    }
  }
  const reads = new Map<string, string[]>()
  const usage = await session.rows(
    `SELECT view_schema, view_name, table_schema, table_name FROM information_schema.view_table_usage
     ORDER BY CAST(table_schema AS BINARY), CAST(table_name AS BINARY)`,
  )
  for (const [ownSchema, ownName, schema, name] of usage.map(row => row.map(textOfCell))) {
    const key = keyOf(ownSchema!, ownName!)
    reads.set(key, [...(reads.get(key) ?? []), keyOf(schema!, name!)])
  }
  const ordered = new Set<View>()
  const visit = (key: string, above: ReadonlySet<string>) => {
    const view = views.get(key)
    if (!view || above.has(key) || ordered.has(view)) return
    for (const read of reads.get(key) ?? []) visit(read, new Set([...above, key]))
    ordered.add(view)
  }
  for (const key of views.keys()) visit(key, new Set())
  return [...ordered]
}

/** Codes of a statement that is about something that does not exist, or may not be read by whom it is read for. */
const missing = new Set([
  ...['ER_NO_SUCH_TABLE', 'ER_BAD_FIELD_ERROR', 'ER_VIEW_INVALID', 'ER_SP_DOES_NOT_EXIST', 'ER_BAD_DB_ERROR'],
  ...['ER_NO_SUCH_USER', 'ER_FUNC_INEXISTENT_NAME_COLLISION', 'ER_KEY_DOES_NOT_EXITS', 'ER_UNKNOWN_TABLE'],
])

async function canBePrepared(session: MysqlSession, query: string): Promise<boolean> {
  try {
    await session.rows(`PREPARE of_view FROM ${quotedSql(query)}`)
    await session.rows('DEALLOCATE PREPARE of_view')
    return true
  } catch (error) {
    if (missing.has((error as { code?: string }).code ?? '')) return false
    throw error
  }
}

const keyOf = (database: string, name: string): string => JSON.stringify([database, name])
