import { dayMs } from '../../lib/time.ts'
import 'reflect-metadata'
import { randomBytes, type webcrypto } from 'node:crypto'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { importKey, keyAlgorithm, makeKeys, privatePem } from './keys.ts'

/** A certificate that issues others, and its private key. Both PEM. */
export interface Authority {
  certificate: string
  privateKey: string
}

export interface CertificateRequest {
  kind: 'server' | 'client'
  commonName: string
  /** DNS names that the holder is reached by. */
  names: readonly string[]
  /** IP addresses that the holder is reached by. */
  addresses: readonly string[]
  /** Whole days of validity, 397 at most for a server: common clients refuse more. */
  days: number
}

export interface IssuedCertificate {
  certificate: string
  privateKey: string
  /** Last second of its validity. */
  endsAt: Date
}

const authorityDays = 3650
const maxServerDays = 397
/** Clients whose clock is behind must not take a new certificate for one of the future. */
const clockSkewMs = 3_600_000
/** Max characters of a common name. Clients compare the names and addresses, which have no such limit. */
const maxCommonName = 64

/**
 * A new authority with a key on P-256, valid for ten years from `now`. It issues certificates of servers and clients, and no further
 * authorities. People see what it is for in their trust stores.
 */
export async function makeAuthority(
  now: Date = new Date(),
  purpose: 'databases' | 'domains' = 'databases',
): Promise<Authority> {
  const keys = await makeKeys()
  const certificate = await X509CertificateGenerator.createSelfSigned({
    keys,
    signingAlgorithm: keyAlgorithm,
    serialNumber: serialNumber(),
    // A trust store may hold those of several installations: a name of its own leads clients to the right one.
    name: [{ CN: [`Berth ${purpose} ${randomBytes(4).toString('hex')}`] }],
    ...validity(authorityDays, now),
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: pemOf(certificate), privateKey: await privatePem(keys.privateKey) }
}

/** A new key, and a certificate for it. It ends with its authority at the latest. Throws RangeError for other days than allowed. */
export async function issueCertificate(
  authority: Authority,
  request: CertificateRequest,
  now: Date = new Date(),
): Promise<IssuedCertificate> {
  const keys = await makeKeys()
  const issued = await certifyKey(authority, { ...request, publicKey: keys.publicKey }, now)
  return { ...issued, privateKey: await privatePem(keys.privateKey) }
}

/** A certificate for a key that its holder has made. It ends with its authority at the latest. Throws RangeError for other days than allowed. */
export async function certifyKey(
  authority: Authority,
  request: CertificateRequest & { publicKey: webcrypto.CryptoKey },
  now: Date = new Date(),
): Promise<Omit<IssuedCertificate, 'privateKey'>> {
  const { kind, commonName, names, addresses, days, publicKey } = request
  if (!Number.isInteger(days) || days < 1 || (kind === 'server' && days > maxServerDays))
    throw new RangeError(`A ${kind} certificate must be valid for 1 to ${maxServerDays} whole days, not ${days}.`)
  const issuer = new X509Certificate(authority.certificate)
  const { notBefore, notAfter } = validity(days, now)
  const endsAt = new Date(Math.min(notAfter.getTime(), issuer.notAfter.getTime()))
  const alternatives = [
    ...names.map(value => ({ type: 'dns', value }) as const),
    ...addresses.map(value => ({ type: 'ip', value }) as const),
  ]
  const certificate = await X509CertificateGenerator.create({
    publicKey,
    signingKey: await importKey(authority.privateKey),
    signingAlgorithm: keyAlgorithm,
    serialNumber: serialNumber(),
    issuer: issuer.subjectName,
    subject: [{ CN: [commonName.slice(0, maxCommonName)] }],
    notBefore,
    notAfter: endsAt,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage[kind === 'server' ? 'serverAuth' : 'clientAuth']]),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
      await SubjectKeyIdentifierExtension.create(publicKey),
      ...(alternatives.length > 0 ? [new SubjectAlternativeNameExtension(alternatives)] : []),
    ],
  })
  return { certificate: pemOf(certificate), endsAt }
}

/** Certificates have whole seconds. */
function validity(days: number, now: Date): { notBefore: Date; notAfter: Date } {
  const start = Math.floor((now.getTime() - clockSkewMs) / 1000) * 1000
  return { notBefore: new Date(start), notAfter: new Date(start + days * dayMs) }
}

/** Positive, and unpredictable, as clients and other authorities expect. */
function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes[0] = (bytes[0]! & 0x7f) | 0x40
  return bytes.toString('hex')
}

const pemOf = (certificate: X509Certificate): string => `${certificate.toString('pem')}\n`
