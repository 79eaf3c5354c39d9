import { webcrypto } from 'node:crypto'
import { PemConverter } from '@peculiar/x509'

export const keyAlgorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

/** A new pair of keys on P-256. */
export const makeKeys = (): Promise<webcrypto.CryptoKeyPair> =>
  webcrypto.subtle.generateKey(keyAlgorithm, true, ['sign', 'verify']) as Promise<webcrypto.CryptoKeyPair>

/** A private key as PEM (PKCS #8). */
export async function privatePem(key: webcrypto.CryptoKey): Promise<string> {
  return `${PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY')}\n`
}

/** A private key on P-256 from its PEM, to sign with. */
export function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  return webcrypto.subtle.importKey('pkcs8', PemConverter.decode(pem)[0]!, keyAlgorithm, false, ['sign'])
}
