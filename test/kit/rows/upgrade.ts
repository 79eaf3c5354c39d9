import { type Db, migrateNext } from '../../../db/database.ts'
import { olderRows } from './older-rows.ts'

/** How many rows each table has. */
export async function rowCounts(db: Db): Promise<Record<string, number>> {
  const tables: string[] = await db('pg_tables')
    .where({ schemaname: 'public' })
    .whereRaw(`tablename not like 'knex%'`)
    .orderBy('tablename')
    .pluck('tablename')
  if (tables.length === 0) return {}
  const counts = tables.map(name => `select '${name}' as name, count(*)::integer as rows from ${name}`)
  const { rows } = await db.raw(counts.join(' union all '))
  return Object.fromEntries(rows.map((row: { name: string; rows: number }) => [row.name, row.rows]))
}

/**
 * Brings an empty database up to date, one migration after the other, each on rows in every table that is there. Resolves to what is
 * wrong: tables that a migration took rows from, and tables that nobody has written rows for.
 */
export async function upgradeWithRows(db: Db): Promise<string[]> {
  const wrong: string[] = []
  for (let before: Record<string, number> = {}; ; before = await rowCounts(db)) {
    const made = await migrateNext(db)
    if (!made) return wrong
    const after = await rowCounts(db)
    for (const [table, rows] of Object.entries(before))
      if (after[table] !== rows) wrong.push(`${made}: ${table} had ${rows} rows and has ${after[table]}`)
    if (olderRows[made]) await db.raw(olderRows[made])
    for (const [table, rows] of Object.entries(await rowCounts(db)))
      if (rows === 0) wrong.push(`${made}: test/kit/rows/older-rows.ts has no row of ${table}`)
  }
}
