import { randomBytes } from 'node:crypto'
import { MiB } from '../../../../../lib/bytes.ts'
import type { DumpFile } from '../../../dump-files.ts'
import { type MysqlSession, named, type RawRow } from '../mysql-session.ts'
import type { Column, Program } from './definitions.ts'
import type { MysqlVisitor, Table } from './digest.ts'

/** Larger statements are ended: the server reads each as a whole. */
const statementBytes = MiB
/** Values are written in pieces of this size. */
const pieceBytes = MiB

const preparation = `\
SET NAMES utf8mb4;
SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
SET foreign_key_checks = 0, unique_checks = 0, restrict_fk_on_non_standard_key = 0;
SET sql_generate_invisible_primary_key = 0, sql_require_primary_key = 0;
`

const textual = new Set(['utf8mb4', 'utf8mb3', 'ascii'])
const numeric = /^(tinyint|smallint|mediumint|int|bigint|decimal|float|double|bit|enum|set|year)$/
const temporal = /^(date|time|datetime|timestamp)$/

/** Writes contents as a script for the `mysql` client, in bytes: each value and statement is as it is stored. */
export function scriptWriter(session: MysqlSession, file: DumpFile): MysqlVisitor {
  // A word that no statement contains, so that it ends none early. The client takes no more than 15 characters.
  const end = `//${randomBytes(6).toString('hex')}`
  file.add(preparation)
  return {
    database: (_, statement) => file.add(`${statement};\n`),
    table: table => writeTable(session, file, table),
    program: (database, program) => writeProgram(file, database, program, end),
    readOnly: database => file.add(`ALTER DATABASE ${named(database)} READ ONLY = 1;\n`),
  }
}

async function writeTable(session: MysqlSession, file: DumpFile, table: Table): Promise<void> {
  const columns = table.columns.filter(({ generated }) => !generated)
  file.add(`USE ${named(table.database)};\n`)
  file.add(table.statement)
  file.add(';\n')
  const names = columns.map(({ name }) => named(name)).join(', ')
  const from = `FROM ${named(table.database)}.${named(table.name)}`
  const writeRow = rowWriter(file, columns)
  let bytes = 0
  for await (const row of session.stream(`SELECT ${columns.map(readable).join(', ') || 'NULL'} ${from}`)) {
    if (bytes >= statementBytes) {
      file.add(';\n')
      bytes = 0
    }
    file.add(bytes === 0 ? `INSERT INTO ${named(table.name)} (${names}) VALUES\n` : ',\n')
    bytes += writeRow(row)
  }
  if (bytes > 0) file.add(';\n')
}

/** What a column's value is read as. */
function readable({ name, type }: Column): string {
  // The text of a FLOAT has six digits only.
  if (type === 'float') return `CAST(${named(name)} AS DOUBLE)`
  // Their numbers are exact; an empty text may be a value of an ENUM, or none of its values.
  if (type === 'bit' || type === 'enum' || type === 'set') return `CAST(${named(name)} AS UNSIGNED)`
  return named(name)
}

/** Returns the bytes of the row, roughly. */
function rowWriter(file: DumpFile, columns: Column[]): (row: RawRow) => number {
  const kinds = columns.map(kindOf)
  return row => {
    // Each character is one byte.
    let text = '('
    let bytes = 0
    for (const [index, kind] of kinds.entries()) {
      const value = row[index]
      if (index > 0) text += ','
      for (const piece of literal(kind, value)) {
        text += piece
        if (text.length < pieceBytes) continue
        file.add(Buffer.from(text, 'latin1'))
        bytes += text.length
        text = ''
      }
    }
    file.add(Buffer.from(`${text})`, 'latin1'))
    return bytes + text.length
  }
}

function* literal(kind: string, value: Buffer | null | undefined): Generator<string> {
  if (!value) yield 'NULL'
  else if (kind === 'number') yield value.toString('latin1')
  else if (value.length === 0) yield "''"
  else if (kind === 'text') {
    yield "'"
    for (let at = 0; at < value.length; at += pieceBytes)
      yield value.toString('latin1', at, at + pieceBytes).replace(special, character => escapes[character]!)
    yield "'"
  } else {
    yield kind
    for (let at = 0; at < value.length; at += pieceBytes) yield value.toString('hex', at, at + pieceBytes)
  }
}

/** `number`, `text`, or what stands before hexadecimal digits. */
function kindOf({ type, charset }: Column): string {
  if (numeric.test(type)) return 'number'
  if (temporal.test(type) || type === 'json' || textual.has(charset ?? '')) return 'text'
  return charset === null ? '0x' : `_${charset} 0x`
}

/** In character sets in which the bytes of these characters are never part of another. */
const escapes: Record<string, string> = {
  '\0': '\\0',
  '\n': '\\n',
  '\r': '\\r',
  '\x1a': '\\Z',
  "'": "\\'",
  '\\': '\\\\',
}
const special = /[\0\n\r\x1a'\\]/g

function writeProgram(file: DumpFile, database: string, program: Program, end: string): void {
  const { statement, charset, collation, sqlMode, databaseCollation, timeZone } = program
  const settings = [
    `USE ${named(database)}`,
    ...(databaseCollation ? [`ALTER DATABASE ${named(database)} COLLATE ${databaseCollation}`] : []),
    ...(timeZone ? [`SET time_zone = '${timeZone}'`] : []),
    ...(sqlMode === undefined ? [] : [`SET sql_mode = '${sqlMode}'`]),
    `SET character_set_client = ${charset}, collation_connection = ${collation}`,
  ]
  file.add(settings.map(setting => `${setting};\n`).join(''))
  file.add(`DELIMITER ${end}\n`)
  file.add(statement)
  file.add(`\n${end}\nDELIMITER ;\n${preparation}`)
}
