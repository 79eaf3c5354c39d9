import { createHmac, timingSafeEqual } from 'node:crypto'
import { deriveKey } from '../keys.ts'

/** Without characters that look alike. */
const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'
/** Characters of a code. */
export const codeLength = 8

/**
 * The 8-character code in a mail, derived from the id of what it confirms: a mail that is sent again contains the same code, and no
 * row, history or queue ever holds it.
 */
export function mailedCode(masterKey: string, purpose: string, id: string): string {
  const digest = createHmac('sha256', deriveKey(masterKey, `mailed-code/${purpose}`))
    .update(id)
    .digest()
  return [...digest.subarray(0, codeLength)].map(byte => alphabet[byte % alphabet.length]).join('')
}

/** Compares in constant time; case and spaces around it do not matter. */
export function isMailedCode(masterKey: string, purpose: string, id: string, given: string): boolean {
  const expected = Buffer.from(mailedCode(masterKey, purpose, id))
  const text = Buffer.from(given.trim().toUpperCase())
  return text.length === expected.length && timingSafeEqual(text, expected)
}
