import { createHmac, timingSafeEqual } from 'node:crypto'

/** The signature of a text: 43 characters of base64url (HMAC-SHA256). */
export const signatureOf = (key: Buffer, text: string): string =>
  createHmac('sha256', key).update(text).digest('base64url')

/** Whether a signature belongs to this text. Compares in constant time, and as text, so that no other base64 spelling passes. */
export function isSignatureOf(key: Buffer, text: string, signature: string): boolean {
  const [given, expected] = [Buffer.from(signature), Buffer.from(signatureOf(key, text))]
  return given.length === expected.length && timingSafeEqual(given, expected)
}
