import type { Db } from '../database.ts'

/** The release that is in place now, and its container; null when it has none. */
export async function recordRelease(trx: Db, id: string, release: number, containerId: string | null): Promise<void> {
  await trx('apps').where({ id }).update({ release, container_id: containerId })
}

/** The application's first release is in place; may be repeated, the first time stays. */
export async function recordProvisioned(trx: Db, id: string): Promise<void> {
  await trx('apps').where({ id }).whereNull('provisioned_at').update({ provisioned_at: trx.fn.now() })
}
