import { randomBytes } from 'node:crypto'
import { MiB } from '../../../../../lib/bytes.ts'
import type { DumpFile } from '../../../dump-files.ts'
import { type MysqlSession, named, type RawRow } from '../mysql-session.ts'
import type { Column, Program } from './definitions.ts'
import type { MysqlVisitor, Table } from './digest.ts'

/** Larger statements are ended: the server reads each as a whole. */
const statementBytes = MiB
/** The script is written in pieces of about this size, and values in pieces of at most this size. */
const pieceBytes = MiB / 4

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
  const defaults = new Map<string, string>()
  file.add(preparation)
  return {
    database: (name, statement) => {
      defaults.set(name, defaultsOf(statement))
      file.add(`${statement};\n`)
    },
    table: table => writeTable(session, file, table),
    program: (name, program) => writeProgram(file, { name, defaults: defaults.get(name)! }, program, end),
    readOnly: database => file.add(`ALTER DATABASE ${named(database)} READ ONLY = 1;\n`),
  }
}

async function writeTable(session: MysqlSession, file: DumpFile, table: Table): Promise<number> {
  const columns = table.columns.filter(({ generated }) => !generated)
  file.add(`USE ${named(table.database)};\n`)
  file.add(table.statement)
  file.add(';\n')
  const names = columns.map(({ name }) => named(name)).join(', ')
  const from = `FROM ${named(table.database)}.${named(table.name)}`
  const begin = Buffer.from(`INSERT INTO ${named(table.name)} (${names}) VALUES\n`).toString('latin1')
  const kinds = columns.map(kindOf)
  const script = new Script(file)
  let began: number | null = null
  for await (const rows of session.batches(`SELECT ${columns.map(readable).join(', ') || 'NULL'} ${from}`))
    for (const row of rows) {
      if (began !== null && script.bytes - began >= statementBytes) {
        script.add(';\n')
        began = null
      }
      script.add(began === null ? begin : ',\n')
      began ??= script.bytes
      addRow(script, kinds, row)
    }
  if (began !== null) script.add(';\n')
  script.end()
  return script.bytes
}

/** What a column's value is read as. */
function readable({ name, type }: Column): string {
  // The text of a FLOAT has six digits only.
  if (type === 'float') return `CAST(${named(name)} AS DOUBLE)`
  // Their numbers are exact; an empty text may be a value of an ENUM, or none of its values.
  if (type === 'bit' || type === 'enum' || type === 'set') return `CAST(${named(name)} AS UNSIGNED)`
  return named(name)
}

/** Text on its way to a file, of which each character is one byte: to add many small pieces to the file itself takes longer. */
class Script {
  bytes = 0
  readonly #file: DumpFile
  #text = ''

  constructor(file: DumpFile) {
    this.#file = file
  }

  add(text: string): void {
    this.bytes += text.length
    this.#text += text
    if (this.#text.length >= pieceBytes) this.end()
  }

  end(): void {
    this.#file.add(Buffer.from(this.#text, 'latin1'))
    this.#text = ''
  }
}

function addRow(script: Script, kinds: string[], row: RawRow): void {
  script.add('(')
  for (let index = 0; index < kinds.length; index++) {
    if (index > 0) script.add(',')
    addLiteral(script, kinds[index]!, row[index])
  }
  script.add(')')
}

function addLiteral(script: Script, kind: string, value: Buffer | null | undefined): void {
  if (!value) script.add('NULL')
  else if (kind === 'number') script.add(value.toString('latin1'))
  else if (value.length === 0) script.add("''")
  else if (kind === 'text') {
    script.add("'")
    for (const piece of piecesOf(value, 'latin1'))
      script.add(isSpecial.test(piece) ? piece.replace(special, character => escapes[character]!) : piece)
    script.add("'")
  } else {
    script.add(kind)
    for (const piece of piecesOf(value, 'hex')) script.add(piece)
  }
}

function* piecesOf(value: Buffer, encoding: 'latin1' | 'hex'): Generator<string> {
  for (let at = 0; at < value.length; at += pieceBytes) yield value.toString(encoding, at, at + pieceBytes)
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
const isSpecial = new RegExp(special.source)

/** The clause of a database's statement about its character set and collation; one that it does not name is the usual one of the set. */
const defaultsOf = (statement: string): string =>
  /\/\*!40100 DEFAULT (CHARACTER SET \w+(?: COLLATE \w+)?) \*\/(?: \/\*!80016 [^*]*\*\/)?$/.exec(statement)![1]!

/** A program keeps the collation that its database had when it was written; the database itself may have another one since. */
function writeProgram(
  file: DumpFile,
  database: { name: string; defaults: string },
  program: Program,
  end: string,
): void {
  const { statement, charset, collation, sqlMode, databaseCollation, timeZone } = program
  const alter = `ALTER DATABASE ${named(database.name)}`
  const isOther = databaseCollation !== undefined && !database.defaults.endsWith(` COLLATE ${databaseCollation}`)
  const settings = [
    `USE ${named(database.name)}`,
    ...(isOther ? [`${alter} COLLATE ${databaseCollation}`] : []),
    ...(timeZone ? [`SET time_zone = '${timeZone}'`] : []),
    ...(sqlMode === undefined ? [] : [`SET sql_mode = '${sqlMode}'`]),
    `SET character_set_client = ${charset}, collation_connection = ${collation}`,
  ]
  file.add(settings.map(setting => `${setting};\n`).join(''))
  file.add(`DELIMITER ${end}\n`)
  file.add(statement)
  file.add(`\n${end}\nDELIMITER ;\n${preparation}`)
  if (isOther) file.add(`${alter} ${database.defaults};\n`)
}
