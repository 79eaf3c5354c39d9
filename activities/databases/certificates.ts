import { type Db, transaction } from '../../db/database.ts'
import { storeCertificates } from '../../db/databases/authorities.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { type Authority, issueCertificate } from '../certificates/authority.ts'
import type { DatabaseFolders } from './container.ts'
import { certificateFiles } from './port.ts'
import { readSetting, writePair } from './settings-folder.ts'

/** Days for which the certificates of a database are valid; the most that common clients accept. */
const certificateDays = 397

export interface CertificateOptions {
  db: Db
  keys: SealKeys
}

/** Where clients reach a database: its certificate names both. */
export interface DatabaseNames {
  hostname: string
  address: string
}

/** `renew`: new ones in any case. `privately`: for an engine that nobody reaches; the row keeps what its owner reads. */
export type CertificateUse = 'serve' | 'renew' | 'privately'

/**
 * Issues the pair of a database's engine, and the one that its owner reads, and puts the first into the folder of settings. Does
 * nothing when the row and the folder have the same certificate already, unless new ones are wanted.
 */
export async function ensureCertificates(
  { db, keys, authority }: CertificateOptions & { authority: () => Promise<Authority> },
  database: DatabaseFacts,
  folders: DatabaseFolders,
  { hostname, address, use = 'serve' }: DatabaseNames & { use?: CertificateUse },
): Promise<void> {
  const present = await readSetting(folders, certificateFiles.certificate)
  if (use === 'serve' && present !== null && present === database.certificate) return
  if (use === 'privately' && present !== null) return
  const issuer = await authority()
  const names = { names: [hostname, 'localhost'], addresses: [...new Set([address, '127.0.0.1'])] }
  const server = await issueCertificate(issuer, {
    kind: 'server',
    commonName: hostname,
    ...names,
    days: certificateDays,
  })
  if (use === 'privately') return writePair(folders, { ...server, authority: issuer.certificate }, database.uid)
  const client = await issueCertificate(issuer, {
    kind: 'client',
    commonName: 'default',
    names: [],
    addresses: [],
    days: certificateDays,
  })
  await writePair(folders, { ...server, authority: issuer.certificate }, database.uid)
  // Last: until the row has it, the next attempt issues another pair.
  await transaction(db, trx =>
    storeCertificates(trx, database.id, keys, {
      certificate: server.certificate,
      client: [client.privateKey, client.certificate, issuer.certificate].map(withLineEnd).join(''),
      endsAt: server.endsAt,
    }),
  )
}

const withLineEnd = (pem: string): string => (pem.endsWith('\n') ? pem : `${pem}\n`)
