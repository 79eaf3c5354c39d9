import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { chainFacts, chainTrouble } from '../../activities/certificates/chain.ts'
import type { ServedCertificate } from '../../db/domains/certificates.ts'

/** Paths of PEM files. */
interface OwnFiles {
  certificate: string
  key: string
}

/** How often the files are read again. */
const rereadMs = 60_000

/**
 * The certificate of the operator's files, for each of its names. Files that cannot be used are reported, and what was read last stays: a
 * renewal replaces two files one after the other.
 */
export function ownCertificates(
  files: OwnFiles | null,
  log: Pick<Logger, 'error'>,
  now: () => number = () => performance.now(),
): () => Promise<ServedCertificate[]> {
  if (!files) return async () => []
  const { certificate, key } = files
  let known: ServedCertificate[] = []
  let readAt = Number.NEGATIVE_INFINITY
  let reported = ''
  return async () => {
    if (now() - readAt < rereadMs) return known
    readAt = now()
    try {
      known = served(await readFile(certificate, 'utf8'), await readFile(key, 'utf8'))
      reported = ''
    } catch (error) {
      const { message } = error as Error
      if (message !== reported) log.error({ certificate, key, why: message }, 'EDGE_CERTIFICATE cannot be used')
      reported = message
    }
    return known
  }
}

function served(chain: string, privateKey: string): ServedCertificate[] {
  const { names } = chainFacts(chain)
  const trouble = chainTrouble(chain, { privateKey, hostnames: names })
  if (trouble) throw new Error(trouble)
  const version = createHash('sha256').update(chain).digest('hex').slice(0, 32)
  return names.map(hostname => ({ hostname, version, chain, privateKey }))
}
