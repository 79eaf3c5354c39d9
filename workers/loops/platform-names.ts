import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import { keepPlatformNames, lookForCertificates } from '../../db/domains/domain-looks.ts'
import type { ServedCertificate } from '../../db/domains/served-certificates.ts'
import { loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { Domains } from '../../workflows/client.ts'

export interface PlatformNamesOptions {
  db: Db
  domains: Domains
  names: readonly string[]
  /** Name of the authority that the installation uses; null: none. */
  authority: string | null
  /** Names with a certificate of the operator's own: none is ordered for them. Null = not known yet. */
  ownCertificates: () => Promise<ServedCertificate[] | null>
  log: Logger
}

/**
 * Keeps the rows of the platform's own host names, which get certificates as customers' names do, until the signal aborts. Begins with names
 * that have no certificate of the authority, which may be another one than before.
 */
export async function keepPlatformRows(options: PlatformNamesOptions, signal: AbortSignal): Promise<void> {
  const { db, domains, names, ownCertificates, log } = options
  let { authority } = options
  const round = async () => {
    if (authority !== null) await lookForCertificates(db, authority)
    authority = null
    const certificates = await ownCertificates()
    if (!certificates) return // an order may be for a name of theirs
    const own = new Set(certificates.map(({ hostname }) => hostname))
    const added = await keepPlatformNames(
      db,
      names.filter(name => !own.has(name)),
    )
    for (const hostname of added) await domains.wake(hostname)
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'names of the platform: will try again')
  await loop(round, { signal, everyMs: roundSeconds.platformNames * 1000, onError })
}
