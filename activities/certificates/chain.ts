import 'reflect-metadata'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import {
  AuthorityKeyIdentifierExtension,
  X509Certificate as ParsedCertificate,
  Pkcs10CertificateRequest,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509'
import { authorityRules } from '../../policy/domains/authority-rules.ts'
import type { Validity } from '../../policy/domains/times.ts'

/** What rows and people want to know of a certificate. */
export interface CertificateFacts extends Validity {
  /** Common name of its issuer, or its whole name. */
  issuer: string
  /** Hexadecimal, in lower case. */
  serial: string
  /** DNS names that it is valid for. */
  names: string[]
  /** By this its authority answers when to renew it (RFC 9773); null if it names no key of its issuer. */
  ariId: string | null
}

const maxPemCharacters = 262_144
const block = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** The certificates of a chain, PEM, each on its own. Throws for a text without any. */
function certificatesOf(chain: string): string[] {
  const blocks = chain.length > maxPemCharacters ? null : chain.match(block)
  if (!blocks) throw new Error('This is no chain of certificates.')
  return blocks
}

/** The facts of the first certificate of a chain. Throws for a text that is none. */
export function chainFacts(chain: string): CertificateFacts {
  const [first = ''] = certificatesOf(chain)
  const leaf = new ParsedCertificate(first)
  const [name] = leaf.issuerName.getField('CN')
  return {
    issuer: name ?? leaf.issuer,
    serial: leaf.serialNumber.toLowerCase(),
    names: namesOf(leaf),
    notBefore: leaf.notBefore,
    notAfter: leaf.notAfter,
    ariId: ariIdOf(leaf),
  }
}

function namesOf({ extensions }: ParsedCertificate): string[] {
  const alternatives = extensions.find(one => one instanceof SubjectAlternativeNameExtension)
  return (alternatives?.names.items ?? []).flatMap(({ type, value }) => (type === 'dns' ? [value.toLowerCase()] : []))
}

/** Key of the issuer and serial number, as DER has them: a serial number whose first bit is set begins with a zero byte. */
function ariIdOf({ extensions, serialNumber }: ParsedCertificate): string | null {
  const keyId = extensions.find(one => one instanceof AuthorityKeyIdentifierExtension)?.keyId
  if (!keyId) return null
  const serial = serialNumber.length % 2 === 0 ? serialNumber : `0${serialNumber}`
  const der = /^[89a-f]/i.test(serial) ? `00${serial}` : serial
  return [keyId, der].map(hex => Buffer.from(hex, 'hex').toString('base64url')).join('.')
}

/**
 * Why a chain cannot serve these host names with this key (PEM) now, in a sentence; null if it can. Each certificate must be followed by
 * that of its issuer. Whether clients trust the last one is not looked at.
 */
export function chainTrouble(
  chain: string,
  { privateKey, hostnames, now = new Date() }: { privateKey: string; hostnames: readonly string[]; now?: Date },
): string | null {
  try {
    const certificates = certificatesOf(chain).map(text => new X509Certificate(text))
    const [leaf] = certificates as [X509Certificate]
    const { names, notBefore, notAfter } = chainFacts(chain)
    const isFor = (hostname: string) => names.includes(hostname) || names.includes(hostname.replace(/^[^.*]+/, '*'))
    const missing = hostnames.find(hostname => !isFor(hostname))
    if (certificates.length > authorityRules.maxChain) return 'The chain has too many certificates.'
    if (!leaf.checkPrivateKey(createPrivateKey(privateKey))) return 'The certificate is of another key.'
    if (leaf.ca) return 'The certificate is that of an authority.'
    if (missing !== undefined) return `The certificate is not valid for ${missing}.`
    if (now < notBefore) return `The certificate is not valid before ${notBefore.toISOString()}.`
    if (now >= notAfter) return `The certificate expired at ${notAfter.toISOString()}.`
    return isChain(certificates) ? null : 'The certificates of the chain do not follow each other.'
  } catch {
    return 'The chain or the key cannot be read.' // without the reason, which may quote the key
  }
}

const isChain = (certificates: readonly X509Certificate[]): boolean =>
  certificates.slice(1).every((issuer, index) => {
    const issued = certificates[index]!
    return issuer.ca && issued.checkIssued(issuer) && issued.verify(issuer.publicKey)
  })

/** Whether the first certificate of a chain has the key of a CSR (DER). */
export function requestFits(csr: Buffer, chain: string): boolean {
  try {
    const [first = ''] = certificatesOf(chain)
    const key = Buffer.from(new Pkcs10CertificateRequest(csr).publicKey.rawData)
    return key.equals(new X509Certificate(first).publicKey.export({ type: 'spki', format: 'der' }))
  } catch {
    return false
  }
}
