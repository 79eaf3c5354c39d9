import { randomBytes } from 'node:crypto'
import { renewAt, standingOf, type Term, termOf } from '../../policy/databases/certificate-terms.ts'
import { CodedError } from '../../policy/errors.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import type { Db } from '../database.ts'
import type { DatabaseRow } from './database-rows.ts'

/** Identifies the row that a sealed key is bound to. */
export const authorityBinding = (name: string): string => `authorities/${name}`

/** Identifies the row that the sealed client certificate of a database is bound to. */
export const clientBinding = (databaseId: string): string => `databases/${databaseId}/client`

const certificateAuthority = 'databases'
const passwords = 'database-passwords'
const passwordKeyBytes = 32

/** What is created once and stored: a key, PEM or hex, and the certificate that belongs to it, PEM, or null. */
interface Created {
  certificate: string | null
  privateKey: string
}

/** An authority that issues, PEM, and the certificates of those that clients trust, itself first. */
export interface IssuingAuthority {
  certificate: string
  privateKey: string
  trusted: string[]
}

/**
 * The authority that issues the certificates of this installation's databases. Makes the first one, and the next one in time
 * (policy/databases/certificate-terms.ts). Of concurrent callers each may call `make`; all get what is stored. Throws READ_FAILED when
 * its key cannot be decrypted: a new one would make every client refuse.
 */
export async function ensureAuthority(
  db: Db,
  keys: SealKeys,
  make: (now: Date) => Promise<{ certificate: string; privateKey: string }>,
  now: Date = new Date(),
): Promise<IssuingAuthority> {
  let authorities = await listAuthorities(db)
  if (standingOf(authorities, now).isNextDue) {
    const number = (authorities.at(-1)?.number ?? 0) + 1
    await ensure(db, keys, nameOf(number), () => make(now))
    authorities = await listAuthorities(db)
  }
  const { issuing, trusted } = standingOf(authorities, now)
  const own = issuing && (await read(db, keys, nameOf(issuing.number)))
  if (!own) throw new CodedError('READ_FAILED', 'The authority of databases has ended.')
  return { certificate: issuing.certificate, privateKey: own.privateKey, trusted: trusted.map(one => one.certificate) }
}

/**
 * The root that issues certificates of host names where the platform is its own authority (EDGE_TLS=local), created at its first use. Throws
 * READ_FAILED when its key cannot be decrypted.
 */
export async function ensureEdgeRoot(
  db: Db,
  keys: SealKeys,
  make: () => Promise<{ certificate: string; privateKey: string }>,
): Promise<{ certificate: string; privateKey: string }> {
  const { certificate, privateKey } = await ensure(db, keys, 'edge', make)
  return { certificate: certificate!, privateKey }
}

/** The certificate of that root, PEM; null before its first use. */
export async function findEdgeRoot(db: Db): Promise<string | null> {
  const row = await db('authorities').where({ name: 'edge' }).first('certificate')
  return row?.certificate ?? null
}

/** The certificates that clients of databases trust now, PEM, the issuing one first. */
export async function trustedAuthorities(db: Db, now: Date = new Date()): Promise<string[]> {
  return standingOf(await listAuthorities(db), now).trusted.map(({ certificate }) => certificate)
}

interface KnownAuthority {
  number: number
  certificate: string
  term: Term
}

/** Oldest first. */
async function listAuthorities(db: Db): Promise<KnownAuthority[]> {
  const rows: { name: string; certificate: string }[] = await db('authorities')
    .whereNotNull('certificate')
    .select('name', 'certificate')
  return rows
    .flatMap(({ name, certificate }) => {
      const number = numberOf(name)
      return number === undefined ? [] : [{ number, certificate, term: termOf(certificate) }]
    })
    .sort((one, other) => one.number - other.number)
}

const nameOf = (number: number): string => (number === 1 ? certificateAuthority : `${certificateAuthority}-${number}`)

function numberOf(name: string): number | undefined {
  if (name === certificateAuthority) return 1
  const [, number] = /^databases-(\d{1,6})$/.exec(name) ?? []
  return number === undefined ? undefined : Number(number)
}

/** The key that passwords of databases derive from, 32 bytes, created at its first use. Throws READ_FAILED when it cannot be decrypted. */
export async function databasePasswordKey(db: Db, keys: SealKeys): Promise<Buffer> {
  const make = async () => ({ certificate: null, privateKey: randomBytes(passwordKeyBytes).toString('hex') })
  const { privateKey } = await ensure(db, keys, passwords, make)
  return Buffer.from(privateKey, 'hex')
}

async function ensure(db: Db, keys: SealKeys, name: string, make: () => Promise<Created>): Promise<Created> {
  const present = await read(db, keys, name)
  if (present) return present
  const { certificate, privateKey } = await make()
  const sealed = seal(keys, privateKey, authorityBinding(name))
  await db('authorities').insert({ name, certificate, key_sealed: sealed }).onConflict('name').ignore()
  // Of another caller, if that one was first.
  return (await read(db, keys, name))!
}

async function read(db: Db, keys: SealKeys, name: string): Promise<Created | null> {
  const row = await db('authorities').where({ name }).first('certificate', 'key_sealed')
  if (!row) return null
  const what = `The key "${name}" of this installation`
  return { certificate: row.certificate, privateKey: opened(keys, row.key_sealed, authorityBinding(name), what) }
}

/**
 * Records the certificate that a database's engine has, and seals what its owner reads. `renewAt`: when it is due to be replaced; null = its
 * engine does not serve it yet, so that the former one may be due (`recordCertificateServed`).
 */
export async function storeCertificates(
  trx: Db,
  id: string,
  keys: SealKeys,
  { certificate, client, endsAt, renewAt }: { certificate: string; client: string; endsAt: Date; renewAt: Date | null },
): Promise<void> {
  const client_sealed = seal(keys, client, clientBinding(id))
  const due = renewAt && { certificate_renew_at: renewAt, renewal_failures: 0 }
  const dates = { certificate_ends_at: endsAt, ...due }
  await trx('databases')
    .where({ id })
    .update({ certificate, client_sealed, ...dates })
}

/** Records that the engine of a database serves its certificate, which says when the next renewal is due. */
export async function recordCertificateServed(db: Db, id: string, now: Date): Promise<void> {
  const row = await db('databases').where({ id }).first('certificate')
  if (!row?.certificate) return
  const term = termOf(row.certificate)
  const { issuing } = standingOf(await listAuthorities(db), now)
  const certificate_renew_at = renewAt(term, issuing?.term ?? term)
  await db('databases')
    .where({ id, certificate: row.certificate })
    .update({ certificate_renew_at, renewal_failures: 0 })
}

/** What an owner reads, PEM. Throws READ_FAILED when it cannot be decrypted, or is not issued yet. */
export function readClientCertificate(
  { id, client_sealed: sealed }: Pick<DatabaseRow, 'id' | 'client_sealed'>,
  keys: SealKeys,
): string {
  if (!sealed) throw new CodedError('READ_FAILED', 'The database has no certificate yet.')
  return opened(keys, sealed, clientBinding(id), 'The certificate of the database')
}

function opened(keys: SealKeys, sealed: Buffer, belongsTo: string, what: string): string {
  try {
    return unseal(keys, sealed, belongsTo)
  } catch {
    throw new CodedError('READ_FAILED', `${what} cannot be decrypted.`)
  }
}
