import type { Db } from './database.ts'

/** Removes rows that only mattered for a time. False when another process is at it. */
export async function tidyRows(db: Db): Promise<boolean> {
  return db.transaction(async trx => {
    const { rows } = await trx.raw(`select pg_try_advisory_xact_lock(hashtext('berth.sweep')) as mine`)
    if (!rows[0].mine) return false
    await trx.raw(`delete from idempotency_keys where created_at < now() - interval '24 hours'`)
    await trx.raw(`delete from sessions where expires_at < now() - interval '1 day'`)
    await trx.raw(
      `delete from rate_limits where window_ends_at < now() - interval '1 hour'
          and (blocked_until is null or blocked_until < now())`,
    )
    return true
  })
}
