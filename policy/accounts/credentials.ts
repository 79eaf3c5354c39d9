import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { alphabet62, newId, randomBase62 } from '../ids.ts'
import { deriveKey } from '../keys.ts'

const secretLength = 43 // 62^43 > 2^256
const checkLength = 8
const form = new RegExp(`^([0-9]{18})-([0-9A-Za-z]{${secretLength}})([0-9A-Za-z]{${checkLength}})$`)

/** A new API key: `<userId>-<secret><check>`, 70 characters. Only `hash` and `id` are stored. */
export function newApiKey(masterKey: string, userId: string): { id: string; key: string; hash: Buffer } {
  const secret = randomBase62(secretLength)
  const key = `${userId}-${secret}${check(checkKey(masterKey), userId, secret)}`
  return { id: newId(), key, hash: credentialHash(key) }
}

/** The key of the check inside API keys, which reveals invented keys without a look-up. */
export function checkKey(masterKey: string): Buffer {
  return deriveKey(masterKey, 'api-key-check')
}

/** Check keys of earlier root secrets, 32 bytes in hex each. Throws an Error that names the setting without its value. */
export function earlierKeyChecks(texts: readonly string[]): Buffer[] {
  if (texts.some(text => !/^[0-9a-f]{64}$/.test(text)))
    throw new Error('The setting BERTH_EARLIER_KEY_CHECKS must be 32 bytes in hex, separated by commas.')
  return texts.map(text => Buffer.from(text, 'hex'))
}

/** The account id of a key that this installation once issued; undefined for everything else. Compares in constant time. */
export function issuedTo(key: Buffer, text: string): string | undefined {
  const parts = form.exec(text)
  if (!parts) return undefined
  const [, userId, secret, given] = parts as unknown as [string, string, string, string]
  return timingSafeEqual(Buffer.from(given), Buffer.from(check(key, userId, secret))) ? userId : undefined
}

/** SHA-256, as stored. */
export function credentialHash(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function check(key: Buffer, userId: string, secret: string): string {
  const digest = createHmac('sha256', key).update(`${userId}-${secret}`).digest()
  let value = digest.readBigUInt64BE()
  let text = ''
  while (text.length < checkLength) {
    text += alphabet62[Number(value % 62n)]
    value /= 62n
  }
  return text
}
