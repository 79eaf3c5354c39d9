import { X509Certificate } from 'node:crypto'
import { type Db, transaction } from '../../db/database.ts'
import { type IssuingAuthority, storeCertificates } from '../../db/databases/authorities.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { certificateTerms, renewAt, termOf } from '../../policy/databases/certificate-terms.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { issueCertificate } from '../certificates/authority.ts'
import type { DatabaseFolders } from './container.ts'
import { certificateFiles } from './port.ts'
import { readSetting, writePair } from './settings-folder.ts'

export interface CertificateOptions {
  db: Db
  keys: SealKeys
}

/** Where clients reach a database: its certificate names both. */
export interface DatabaseNames {
  hostname: string
  address: string
}

/**
 * `start`: before the engine starts, with new ones when they are due, or clients reach it elsewhere now. `renew`: new ones in any case.
 * `privately`: for an engine without reachable ports; the row still has what its owner reads.
 */
export type CertificateUse = 'serve' | 'start' | 'renew' | 'privately'

/**
 * Issues the pair of a database's engine, and the one that its owner reads, and puts the first into the folder of settings. Does
 * nothing when the row and the folder have the same certificate already, unless new ones are wanted or due.
 */
export async function ensureCertificates(
  options: CertificateOptions & { authority: (now: Date) => Promise<IssuingAuthority> },
  database: DatabaseFacts,
  folders: DatabaseFolders,
  names: DatabaseNames & { use?: CertificateUse; now?: Date },
): Promise<void> {
  const { use = 'serve', now = new Date() } = names
  const present = await readSetting(folders, certificateFiles.certificate)
  if (use === 'privately' && present !== null) return
  const isKnown = present !== null && present === database.certificate
  if (use === 'renew' || !isKnown) return issue(options, database, folders, { ...names, use, now })
  const { certificateRenewAt: renewAt } = database
  const isDue = renewAt !== null && new Date(renewAt) <= now
  if (use !== 'start' || !(isDue || hasOtherNames(present, names))) return
  const isOver = termOf(present).endsAt <= now
  await issue(options, database, folders, { ...names, use, now }).catch(error => {
    // With the present one it serves; the renewal is tried again while it runs.
    if (isOver) throw error
  })
}

/** Whether clients that verify reject it where they reach the database now: a setting has moved that since it was issued. */
function hasOtherNames(pem: string, { hostname, address }: DatabaseNames): boolean {
  const certificate = new X509Certificate(pem)
  return certificate.checkHost(hostname) === undefined || certificate.checkIP(address) === undefined
}

async function issue(
  { db, keys, authority }: Parameters<typeof ensureCertificates>[0],
  database: DatabaseFacts,
  folders: DatabaseFolders,
  { hostname, address, use, now }: DatabaseNames & { use: CertificateUse; now: Date },
): Promise<void> {
  const issuer = await authority(now)
  const { days } = certificateTerms
  const names = { names: [hostname, 'localhost'], addresses: [...new Set([address, '127.0.0.1'])] }
  const server = await issueCertificate(issuer, { kind: 'server', commonName: hostname, ...names, days }, now)
  // Clients show certificates that an earlier authority has issued, and the host verifies what it serves, with all of them.
  const pair = { ...server, authority: issuer.trusted.map(withLineEnd).join('') }
  if (use === 'privately') return writePair(folders, pair, database.uid)
  // A running engine serves the former pair until it has read this one.
  const isFirst = database.certificate === null
  const subject = { commonName: 'default', names: [], addresses: [] }
  const client = await issueCertificate(issuer, { kind: 'client', ...subject, days }, now)
  await writePair(folders, pair, database.uid)
  // Last: until the row has it, the next attempt issues another pair.
  await transaction(db, trx =>
    storeCertificates(trx, database.id, keys, {
      certificate: server.certificate,
      client: [client.privateKey, client.certificate, issuer.certificate].map(withLineEnd).join(''),
      endsAt: server.endsAt,
      renewAt: isFirst || use === 'start' ? renewAt(termOf(server.certificate), termOf(issuer.certificate)) : null,
    }),
  )
}

const withLineEnd = (pem: string): string => (pem.endsWith('\n') ? pem : `${pem}\n`)
