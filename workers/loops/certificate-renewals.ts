import type { Logger } from 'pino'
import { makeAuthority } from '../../activities/certificates/authority.ts'
import { type Db, transaction, tryRoundLock } from '../../db/database.ts'
import { ensureAuthority } from '../../db/databases/authorities.ts'
import { hasCertificates, type QueuedRenewal, queueRenewals } from '../../db/databases/certificate-renewals.ts'
import { loop } from '../../lib/async/loop.ts'
import { renewalRules } from '../../policy/databases/certificate-terms.ts'
import type { SealKeys } from '../../policy/seal.ts'

export interface RenewalOptions {
  db: Db
  keys: SealKeys
  log: Logger
  now?: () => Date
}

/** Renews certificates of databases, and the authority that issues them, in time and without anybody asking, until the signal aborts. */
export async function renewCertificates(options: RenewalOptions, signal: AbortSignal): Promise<void> {
  await loop(() => renewalsOnce(options), {
    signal,
    everyMs: renewalRules.everySeconds * 1000,
    onError: error => options.log.warn({ err: error }, 'renewals: will try again'),
  })
}

/** Runs one round, in one process at a time; resolves to what it has queued. The relay wakes their lanes. */
export async function renewalsOnce({
  db,
  keys,
  log,
  now = () => new Date(),
}: RenewalOptions): Promise<QueuedRenewal[]> {
  // First: a certificate that is due now should come from the authority of now. Its own failure holds up none of them.
  if (await hasCertificates(db))
    await ensureAuthority(db, keys, makeAuthority, now()).catch(error =>
      log.error({ err: error }, 'renewals: the authority of databases cannot be read or renewed'),
    )
  const queued = await transaction(db, async trx =>
    (await tryRoundLock(trx, 'certificate-renewals')) ? queueRenewals(trx, renewalRules.atOnce, now()) : [],
  )
  for (const { id: databaseId, failures } of queued) {
    if (failures === 1) log.info({ databaseId }, 'renewals: certificates are due')
    else log.warn({ databaseId, attempt: failures }, 'renewals: certificates are due, the attempt before has failed')
  }
  return queued
}
