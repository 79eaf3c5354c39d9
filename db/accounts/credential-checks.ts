import type { Db } from '../database.ts'

const migration = '021-credential-checks'

/** When this installation started to put checks into upload tokens and webhook addresses. */
export async function credentialChecksSince(db: Db): Promise<Date> {
  const row = await db('knex_migrations').where({ name: migration }).first('migration_time')
  return row?.migration_time ?? new Date()
}

/** Hashes of the addresses of webhooks that are older than a moment, in hex. */
export async function webhookAddressesBefore(db: Db, moment: Date): Promise<string[]> {
  const rows: { hash: string }[] = await db('git_webhooks')
    .where('created_at', '<', moment)
    .select(db.raw(`encode(address_hash, 'hex') as hash`))
  return rows.map(({ hash }) => hash)
}
