import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { deriveKey } from './keys.ts'

/** First byte of every sealed text: which root secret it was sealed with; rotation adds another. */
const keyId = 1

/** Encrypts a secret for a column (AES-256-GCM), bound to the row and column it belongs to. */
export function seal(masterKey: string, text: string, belongsTo: string): Buffer {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', deriveKey(masterKey, 'seal/1'), nonce).setAAD(Buffer.from(belongsTo))
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(keyId), nonce, cipher.getAuthTag(), body])
}

/** The secret again. Throws an Error when the bytes were changed, belong elsewhere, or were sealed with another key. */
export function unseal(masterKey: string, sealed: Buffer, belongsTo: string): string {
  if (sealed[0] !== keyId || sealed.length < 29)
    throw new Error('A sealed secret names a key that this installation does not have.')
  const decipher = createDecipheriv('aes-256-gcm', deriveKey(masterKey, 'seal/1'), sealed.subarray(1, 13))
  decipher.setAAD(Buffer.from(belongsTo)).setAuthTag(sealed.subarray(13, 29))
  return Buffer.concat([decipher.update(sealed.subarray(29)), decipher.final()]).toString('utf8')
}
