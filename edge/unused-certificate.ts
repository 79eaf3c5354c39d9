import { generateKeyPairSync, sign } from 'node:crypto'

/**
 * A certificate for no name with its key, both PEM. nginx demands one before it listens for TLS; Lua replaces it in each handshake or
 * refuses the handshake, so no client ever sees it. Made for each start, so that no key lies in the sources.
 */
export function makeUnusedCertificate(): string {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = der(0x30, oid('2a8648ce3d040302')) // ecdsa-with-SHA256
  const name = der(0x30, der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from('unused')))))
  const validity = der(0x30, utcTime('200101000000Z'), utcTime('491231235959Z'))
  const body = der(
    0x30,
    ...[der(0x02, Buffer.from([1])), algorithm, name, validity, name],
    publicKey.export({ type: 'spki', format: 'der' }),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, privateKey))
  const lines = der(0x30, body, algorithm, signature).toString('base64').replace(/.{64}/g, '$&\n')
  const certificate = `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
  return certificate + privateKey.export({ type: 'pkcs8', format: 'pem' })
}

/** One value in ASN.1 DER: its tag, its length, its content. */
function der(tag: number, ...content: Buffer[]): Buffer {
  const bytes = Buffer.concat(content)
  const { length } = bytes
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), bytes])
}

const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'))
const utcTime = (text: string): Buffer => der(0x17, Buffer.from(text))
