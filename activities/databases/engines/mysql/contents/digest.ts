import { createHash } from 'node:crypto'
import { MiB } from '../../../../../lib/bytes.ts'
import { type MysqlSession, named, textOfCell } from '../mysql-session.ts'
import {
  type Column,
  columnsOf,
  createDatabase,
  createTable,
  databasesOf,
  eventsOf,
  type Program,
  routinesOf,
  tablesOf,
  triggersOf,
  type View,
  viewsOf,
} from './definitions.ts'
import { type User, usersOf } from './users.ts'

/** Lines about all that is the customer's, each once, in no order. */
class MysqlDigest {
  readonly #lines: string[] = []

  add(...parts: unknown[]): void {
    this.#lines.push(JSON.stringify(parts))
  }

  program(database: string, program: Program): void {
    const { statement, ends, ...rest } = { ...program, database }
    // A copy that is made after its end does not have it.
    if (ends === 'and is dropped') return
    const bytes = statement.toString('latin1')
    this.add(program.kind, database, rest, ends ? bytes.replace(/ (ENABLE|DISABLE)(?= (COMMENT|DO) )/, '') : bytes)
  }

  user({ role: _, ...user }: User): void {
    this.add('user', { ...user, grants: [...user.grants].sort() })
  }

  /** SHA-256 in hex. */
  end(): string {
    return createHash('sha256').update(this.#lines.sort().join('\n')).digest('hex')
  }
}

/** The value of a column that is part of a row's sum: exact, of limited length, and without a comma. */
function summand({ name, type }: Column): string {
  const value = named(name)
  switch (type) {
    case 'tinyblob':
    case 'blob':
    case 'mediumblob':
    case 'longblob':
    case 'tinytext':
    case 'text':
    case 'mediumtext':
    case 'longtext':
    case 'json':
    case 'vector':
      return `IFNULL(SHA2(${value}, 256), 'n')`
    case 'char':
    case 'varchar':
    case 'binary':
    case 'varbinary':
      return `IFNULL(HEX(${value}), 'n')`
    // The text of a FLOAT has six digits only.
    case 'float':
      return `IFNULL(CAST(${value} AS DOUBLE), 'n')`
    case 'bit':
    case 'enum':
    case 'set':
      return `IFNULL(CAST(${value} AS UNSIGNED), 'n')`
    case 'geometry':
    case 'point':
    case 'linestring':
    case 'polygon':
    case 'multipoint':
    case 'multilinestring':
    case 'multipolygon':
    case 'geomcollection':
    case 'geometrycollection':
      return `IFNULL(SHA2(CAST(${value} AS BINARY), 256), 'n')`
    default:
      return `IFNULL(${value}, 'n')`
  }
}

/** The number of rows, and sums of parts of their SHA-256: equal rows count as often as they are there, in whatever order. */
async function sumsOf(session: MysqlSession, database: string, table: string, columns: Column[]): Promise<string[]> {
  const stored = columns.filter(({ generated }) => !generated)
  const row = `SHA2(CONCAT_WS(',', ${["''", ...stored.map(summand)].join(', ')}), 256)`
  const parts = [1, 17, 33, 49].map(from => `SUM(CAST(CONV(SUBSTR(h, ${from}, 16), 16, 10) AS UNSIGNED))`)
  const [sums] = await session.rows(
    `SELECT COUNT(*), ${parts.join(', ')} FROM (SELECT ${row} AS h FROM ${named(database)}.${named(table)}) AS hashes`,
  )
  return sums!.map(textOfCell)
}

/** A table's statement without the number that its next row would have. */
const lasting = (statement: Buffer): string =>
  statement.toString('latin1').replace(/^(\) ENGINE=\w+) AUTO_INCREMENT=\d+/m, '$1')

/** What the writer of a dump gets, in an order in which it can be made again. */
export interface MysqlVisitor {
  database(name: string, statement: string): void
  /** Resolves to the bytes that it wrote. */
  table(table: Table): Promise<number>
  program(database: string, program: Program): void
  /** Nothing else is done in this database. */
  readOnly(database: string): void
}

export interface Table {
  database: string
  name: string
  statement: Buffer
  columns: Column[]
}

type Summed = Omit<Table, 'statement'> & { lasting: string }

export interface Contents {
  users: User[]
  /** Views that cannot be made again, and are no part of the digest. */
  unusable: View[]
  /** SHA-256 in hex. Reads what remains to be read of that moment, and ends its transaction. */
  digest(): Promise<string>
}

/**
 * The sum of a table with more than this may be read after the dump, which is copied meanwhile. Until then its definition must stay as it is, and
 * owners often change that of small tables.
 */
const largeBytes = 8 * MiB

/** Reads all that is the customer's, as one moment; rows only for a visitor. */
export async function readContents(session: MysqlSession, visitor?: MysqlVisitor): Promise<Contents> {
  await session.rows('START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY')
  const digest = new MysqlDigest()
  const databases = await databasesOf(session)
  const readOnly: string[] = []
  const summedLater: Summed[] = []
  const sum = async ({ database, name, columns, lasting }: Summed) =>
    digest.add('table', database, name, lasting, await sumsOf(session, database, name, columns))
  const take = (database: string, programs: Program[]) => {
    for (const program of programs) {
      digest.program(database, program)
      visitor?.program(database, program)
    }
  }
  for (const database of databases) {
    const creation = await createDatabase(session, database)
    digest.add('database', database, creation)
    visitor?.database(database, creation.statement)
    if (creation.readOnly) readOnly.push(database)
    for (const { name, isTransactional } of await tablesOf(session, database)) {
      await withoutLock(session, async () => {
        const statement = await createTable(session, database, name)
        const columns = await columnsOf(session, database, name)
        const bytes = (await visitor?.table({ database, name, statement, columns })) ?? 0
        const table = { database, name, columns, lasting: lasting(statement) }
        if (isTransactional && bytes > largeBytes) summedLater.push(table)
        else await sum(table)
      })
    }
    take(database, await routinesOf(session, database))
  }
  const unusable: View[] = []
  for (const view of await viewsOf(session, databases)) {
    if (view.usable) take(view.database, [view])
    else unusable.push(view)
  }
  for (const database of databases) {
    take(database, await triggersOf(session, database))
    take(database, await eventsOf(session, database))
  }
  for (const database of readOnly) visitor?.readOnly(database)
  const users = await usersOf(session, unusable)
  for (const user of users) digest.user(user)
  return {
    users,
    unusable,
    async digest() {
      for (const table of summedLater) await withoutLock(session, () => sum(table))
      await session.rows('COMMIT')
      return digest.end()
    },
  }
}

/** Reads a table in a transaction. Afterwards this holds no lock that would make a change of it wait. */
async function withoutLock(session: MysqlSession, read: () => Promise<void>): Promise<void> {
  await session.rows('SAVEPOINT before_table')
  await read()
  await session.rows('ROLLBACK TO SAVEPOINT before_table')
}
