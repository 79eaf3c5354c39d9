import { createHash } from 'node:crypto'
import { type Client, escapeIdentifier, type QueryResult } from 'pg'
import { customerSchemas, definitions } from './definitions.ts'

/**
 * Settings of a session that reads what customers made: text of values does not depend on theirs, and what was a table when it was found is
 * never read as a view, which would call their functions with the rights of the platform.
 */
export const readerSettings = {
  restrict_nonsystem_relation_kind: 'view,foreign-table',
  role: 'none',
  datestyle: 'ISO,MDY',
  intervalstyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '3',
  timezone: 'UTC',
  lc_monetary: 'C',
  xmlbinary: 'base64',
  standard_conforming_strings: 'on',
  quote_all_identifiers: 'off',
  default_transaction_read_only: 'off',
  default_transaction_isolation: 'read\\ committed',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
  lock_timeout: '60s',
} as const

/** A sequence by its name as Postgres quotes it: its value, and whether that was given out. */
export type SequenceValues = ReadonlyMap<string, string>

const ofExtension = `exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')`

/**
 * A text that is equal for databases with equal contents, of the session's database as its transaction sees it. Sequences obey no
 * transaction: their values are those given, or the present ones. Of large tables, sums of two 64-bit hashes of each row, which their order
 * does not change. Rows of a partitioned table may lie in any of its partitions. Generated columns and materialized views follow from the rest.
 */
export async function contentsOfDatabase(client: Client, sequences: SequenceValues | null): Promise<string> {
  const lines: string[] = []
  for (const query of definitions)
    for (const row of await withoutLock(client, query)) lines.push(JSON.stringify(Object.values(row)[0]))
  lines.push(...(await sequenceLines(client, sequences)), ...(await tableLines(client)), await largeObjectLine(client))
  return createHash('sha256').update(lines.sort().join('\n')).digest('hex')
}

/** The rows of a statement, whose locks are given up then: those of a large schema together are more than an engine has room for. */
async function withoutLock(client: Client, statement: string): Promise<QueryResult['rows']> {
  const read = `savepoint before; ${statement}; rollback to savepoint before; release savepoint before`
  const [, result] = (await client.query(read)) as unknown as QueryResult[]
  return result!.rows
}

async function sequenceLines(client: Client, values: SequenceValues | null): Promise<string[]> {
  const { rows } = await client.query(`select format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'S' and ${customerSchemas} and not ${ofExtension}`)
  const lines: string[] = []
  for (const { name } of rows) {
    const value = values ? values.get(name) : await presentValue(client, name)
    if (value === undefined) throw new Error('a sequence was made or renamed during the dump')
    lines.push(JSON.stringify(['value', name, value]))
  }
  return lines
}

async function presentValue(client: Client, sequence: string): Promise<string> {
  const rows = await withoutLock(client, `select last_value::text || ' ' || is_called::text as value from ${sequence}`)
  return rows[0]!.value
}

/** Column by column in the order of their names: positions in tables that inherit change in a dump. */
const tablesQuery = `select format('%I.%I', n.nspname, c.relname) as name,
    case when c.relispartition then pg_partition_root(c.oid) else c.oid end::regclass::text as root,
    (select array_agg(a.attname::text order by a.attname collate "C") from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and ${customerSchemas} and not ${ofExtension}`

async function tableLines(client: Client): Promise<string[]> {
  const { rows } = await client.query(tablesQuery)
  const sums = new Map<string, bigint[]>()
  for (const { name, root, columns } of rows) {
    // The text of a record without a name: no cast that customers have made for their tables applies.
    const row = `row(${(columns ?? []).map((column: string) => `t.${escapeIdentifier(column)}`).join(', ')})::text collate "C"`
    const rowSums = await withoutLock(
      client,
      `select count(*)::text as rows, coalesce(sum(hashtextextended(s.r, 0)), 0)::text as one,
      coalesce(sum(hashtextextended(s.r, 1)), 0)::text as other from (select ${row} as r from only ${name} t offset 0) s`,
    )
    const { rows: count, one, other } = rowSums[0]!
    const before = sums.get(root) ?? [0n, 0n, 0n]
    sums.set(
      root,
      [count, one, other].map((each, at) => before[at]! + BigInt(each)),
    )
  }
  return [...sums].map(([root, each]) => JSON.stringify(['rows', root, ...each.map(String)]))
}

/** Of their bytes; pages that only have zeros may be missing. */
async function largeObjectLine(client: Client): Promise<string> {
  const { rows } =
    await client.query(`select sum(hashtextextended(p, 0))::text as one, sum(hashtextextended(p, 1))::text as other
    from (select loid || ' ' || pageno || ' ' || rtrim(encode(data, 'hex'), '0') as p, data from pg_largeobject) s
    where ltrim(encode(data, 'hex'), '0') <> ''`)
  const { rows: sizes } =
    await client.query(`select coalesce(jsonb_agg(jsonb_build_array(loid, size) order by loid), '[]') as sizes
    from (select loid, max(pageno::bigint * 2048 + length(data)) as size from pg_largeobject group by loid) s`)
  return JSON.stringify(['large objects', rows[0].one, rows[0].other, sizes[0].sizes])
}
