import { createHmac, timingSafeEqual } from 'node:crypto'

/** A check of 16 hex characters over a credential's random part: it reveals invented credentials without a look-up. */
export const hexCheck = (key: Buffer, text: string): string =>
  createHmac('sha256', key).update(text).digest('hex').slice(0, checkLength)

export const checkLength = 16

/** Whether a text ends with the check of its first part. Compares in constant time. */
export function endsWithCheck(key: Buffer, text: string): boolean {
  const given = Buffer.from(text.slice(-checkLength))
  const expected = Buffer.from(hexCheck(key, text.slice(0, -checkLength)))
  return given.length === expected.length && timingSafeEqual(given, expected)
}
