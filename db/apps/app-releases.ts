import type { Db } from '../database.ts'

/** Records the placed release and its container; null when it has none. */
export async function recordRelease(trx: Db, id: string, release: number, containerId: string | null): Promise<void> {
  await trx('apps').where({ id }).update({ release, container_id: containerId })
}

/** Records when the application's first release was placed; a repetition keeps the first time. */
export async function recordProvisioned(trx: Db, id: string): Promise<void> {
  await trx('apps').where({ id }).whereNull('provisioned_at').update({ provisioned_at: trx.fn.now() })
}
