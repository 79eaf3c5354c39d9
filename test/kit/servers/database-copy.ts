import type { Db } from '../../../db/database.ts'

/** Brings every row of one migrated database into another one that is empty, as restoring a backup does. */
export async function copyRows(from: Db, to: Db): Promise<void> {
  const { rows: tables } = await from.raw(
    `select tablename as name from pg_tables where schemaname = 'public' and tablename not like 'knex%'`,
  )
  const { rows: sequences } = await from.raw(
    `select sequencename as name, last_value as value from pg_sequences
      where schemaname = 'public' and last_value is not null and sequencename not like 'knex%'`,
  )
  await to.transaction(async trx => {
    await trx.raw('set local session_replication_role = replica') // references in any order
    for (const { name } of tables) {
      const { rows } = await from.raw('select coalesce(jsonb_agg(t), ?::jsonb)::text as rows from ?? t', ['[]', name])
      await trx.raw('delete from ??', [name])
      await trx.raw(
        'insert into ?? overriding system value select * from jsonb_populate_recordset(null::??, ?::jsonb)',
        [...[name, name], rows[0].rows],
      )
    }
    for (const { name, value } of sequences) await trx.raw('select setval(?, ?)', [name, value])
  })
}
