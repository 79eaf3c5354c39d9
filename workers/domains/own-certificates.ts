import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { chainFacts, chainTrouble } from '../../activities/certificates/chain.ts'
import type { ServedCertificate } from '../../db/domains/served-certificates.ts'

/** Paths of PEM files. */
interface OwnFiles {
  certificate: string
  key: string
}

/** How often the files are read again. */
const rereadMs = 60_000

/**
 * The certificate of the operator's files, for each of its names; null while none could be read, as its names are unknown then.
 * Files that cannot be used are reported, and what was read last stays: a renewal replaces two files one after the other. So is a
 * certificate that has expired or is not valid yet, which is used: clients that accept it get more than without one.
 */
export function ownCertificates(
  files: OwnFiles | null,
  log: Pick<Logger, 'error'>,
  now: () => number = () => performance.now(),
): OwnCertificates {
  if (!files) return async () => []
  const { certificate, key } = files
  let certificates: Promise<ServedCertificate[] | null> = Promise.resolve(null)
  let readAt = Number.NEGATIVE_INFINITY
  let reported: string | null = null
  const report = (why: string | null, words: string) => {
    if (why !== null && why !== reported) log.error({ certificate, key, why }, words)
    reported = why
  }
  const read = async (before: typeof certificates) => {
    try {
      const [chain, privateKey] = await Promise.all([readFile(certificate, 'utf8'), readFile(key, 'utf8')])
      const own = served(chain, privateKey)
      const hostnames = own.map(({ hostname }) => hostname)
      report(chainTrouble(chain, { privateKey, hostnames }), 'EDGE_CERTIFICATE is served, but clients refuse it')
      return own
    } catch (error) {
      report((error as Error).message, 'EDGE_CERTIFICATE cannot be used')
      return before
    }
  }
  return () => {
    if (now() - readAt < rereadMs) return certificates
    readAt = now()
    certificates = read(certificates)
    return certificates
  }
}

export type OwnCertificates = () => Promise<ServedCertificate[] | null>

/** Throws for files that do not belong together. Their dates are not looked at. */
function served(chain: string, privateKey: string): ServedCertificate[] {
  const { names, notBefore } = chainFacts(chain)
  const trouble = chainTrouble(chain, { privateKey, hostnames: names, now: notBefore })
  if (trouble) throw new Error(trouble)
  const version = createHash('sha256').update(chain).digest('hex').slice(0, 32)
  return names.map(hostname => ({ hostname, version, chain, privateKey }))
}
