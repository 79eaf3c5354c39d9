import { createHmac, timingSafeEqual } from 'node:crypto'

/** The signature of a text: 43 characters of base64url (HMAC-SHA256). */
export const signatureOf = (key: Buffer, text: string): string =>
  createHmac('sha256', key).update(text).digest('base64url')

/** Whether a signature belongs to this text. As text, so that no other base64 spelling passes. */
export const isSignatureOf = (key: Buffer, text: string, signature: string): boolean =>
  sameText(signature, signatureOf(key, text))

/** Compares in a time that depends on the length only. */
export function sameText(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}
