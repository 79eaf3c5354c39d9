import 'reflect-metadata'
import type { webcrypto } from 'node:crypto'
import {
  Pkcs10CertificateRequest,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509'
import { keyAlgorithm, makeKeys, privatePem } from './keys.ts'

export interface KeyAndRequest {
  /** PEM (PKCS #8). */
  privateKey: string
  /** DER. */
  csr: Buffer
}

/** A new key on P-256, and the request of a certificate for it and these host names. Store both before the request is sent. */
export async function newRequest(hostnames: readonly string[]): Promise<KeyAndRequest> {
  const keys = await makeKeys()
  const request = await Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm: keyAlgorithm,
    // Authorities take the names from the extension; a common name is limited to 64 characters.
    extensions: [new SubjectAlternativeNameExtension(hostnames.map(value => ({ type: 'dns', value })))],
  })
  return { privateKey: await privatePem(keys.privateKey), csr: Buffer.from(request.rawData) }
}

/** The host names and the public key of a request (DER) that its own key has signed; null for any other. */
export async function readRequest(csr: Buffer): Promise<{ names: string[]; publicKey: webcrypto.CryptoKey } | null> {
  try {
    const request = new Pkcs10CertificateRequest(csr)
    if (!(await request.verify())) return null
    const names = request.extensions.find(one => one instanceof SubjectAlternativeNameExtension)?.names.items ?? []
    return {
      names: names.flatMap(({ type, value }) => (type === 'dns' ? [value] : [])),
      publicKey: await request.publicKey.export(),
    }
  } catch {
    return null
  }
}
