import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { withoutWildcard } from '../../policy/domains/records.ts'
import { CertificateRefused, isHostName, type ServedCertificate } from './port.ts'

/** Keys that both current browsers and OpenSSL at its default level accept. */
const minRsaBits = 2048
const curves = ['prime256v1', 'secp384r1']

/**
 * The certificate with chain and key written in one form, whatever stood around them. Throws CertificateRefused when a part cannot be
 * read, the key does not fit, the chain is out of order, or the host is not one of the certificate's names.
 */
export function checkedCertificate(certificate: ServedCertificate): ServedCertificate {
  const { host, version } = certificate
  const refuse = (why: string) => new CertificateRefused(`The certificate of ${JSON.stringify(host)} ${why}.`)
  if (!isHostName(withoutWildcard(host))) throw refuse('is for no host name in lower case')
  if (!/^[\w.-]{1,64}$/.test(version))
    throw refuse('has no version of 1 to 64 letters, digits, dots, underscores and hyphens')
  const chain = readChain(certificate.chain)
  const leaf = chain?.[0]
  if (!chain || !leaf) throw refuse('cannot be read as PEM')
  const key = readKey(certificate.key)
  if (!key) throw refuse('has a key that cannot be read as PEM')
  if (!isCommon(key)) throw refuse(`has a key other than RSA of ${minRsaBits} bits, P-256 and P-384`)
  if (!leaf.checkPrivateKey(key)) throw refuse('does not fit its key')
  if (chain.some((one, at) => at > 0 && !chain[at - 1]!.checkIssued(one)))
    throw refuse('is followed by others that did not issue it')
  if (!covers(leaf, host)) throw refuse('does not name this host')
  const text = chain.map(one => one.toString()).join('')
  return { host, version, chain: text, key: key.export({ type: 'pkcs8', format: 'pem' }).toString() }
}

function readChain(pem: string): X509Certificate[] | null {
  try {
    return (pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
      block => new X509Certificate(block),
    )
  } catch {
    return null // the caller refuses it with our own message
  }
}

function readKey(pem: string): KeyObject | null {
  try {
    return createPrivateKey(pem)
  } catch {
    return null // OpenSSL's reason is of no help, and must never quote a key
  }
}

function isCommon({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  if (asymmetricKeyType === 'rsa') return (asymmetricKeyDetails?.modulusLength ?? 0) >= minRsaBits
  return asymmetricKeyType === 'ec' && curves.includes(asymmetricKeyDetails?.namedCurve ?? '')
}

/** Browsers read the alternative names only. */
function covers(leaf: X509Certificate, host: string): boolean {
  if (!host.startsWith('*.')) return leaf.checkHost(host, { subject: 'never', partialWildcards: false }) !== undefined
  return (leaf.subjectAltName ?? '').toLowerCase().split(', ').includes(`dns:${host}`)
}
