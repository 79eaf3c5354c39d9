import { createHash, type X509Certificate } from 'node:crypto'

/**
 * A key store of Java (JKS) with these certificates as trusted ones. It has no secret: what a password would protect is only that
 * nobody changes it, and a JVM that has none reads it all the same.
 */
export function keyStoreWith(certificates: readonly X509Certificate[]): Buffer {
  const entries = certificates.map(({ raw }, index) => [
    ...[uint32(trustedCertificate), text(`authority-${index}`), Buffer.alloc(8)], // its time
    ...[text('X.509'), uint32(raw.length), raw],
  ])
  const content = Buffer.concat([uint32(0xfeed_feed), uint32(version), uint32(entries.length), ...entries.flat()])
  const password = Buffer.from('changeit', 'utf16le').swap16()
  const digest = createHash('sha1').update(password).update('Mighty Aphrodite').update(content).digest()
  return Buffer.concat([content, digest])
}

const version = 2
const trustedCertificate = 2

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function text(value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  return Buffer.concat([length, Buffer.from(value, 'ascii')])
}
