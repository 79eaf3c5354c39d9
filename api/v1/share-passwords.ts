import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { CodedError } from '../../policy/errors.ts'

const costBits = 15
const blockSize = 8
const hashBytes = 32

/** Each hash takes 32 MB and most of a second of a core. Shares of one account delay those of others by one of them, and leave them room to wait. */
const max = { running: 2, runningOfOwner: 1, all: 22, ofOwner: 6 }
const slots = new FairSlots({ atOnce: max.running, perSubject: max.runningOfOwner })
/** Of those that run and wait. */
const places = new FairSlots({ atOnce: max.all, perSubject: max.ofOwner })

/** The stored form of a password of an account's share. Throws KEEP_CALM when too many are being hashed. */
export async function hashPassword(ownerId: string, password: string): Promise<string> {
  const salt = randomBytes(16)
  const hash = await inSlot(ownerId, () => derive(password, salt, costBits))
  return ['scrypt', costBits, salt.toString('base64url'), hash.toString('base64url')].join('$')
}

/** Whether a password matches its stored form. Throws KEEP_CALM as `hashPassword` does. */
export async function isPassword(ownerId: string, password: string, stored: string): Promise<boolean> {
  const [, bits, salt = '', hash = ''] = stored.split('$')
  const expected = Buffer.from(hash, 'base64url')
  const actual = await inSlot(ownerId, () => derive(password, Buffer.from(salt, 'base64url'), Number(bits)))
  return actual.length === expected.length && timingSafeEqual(actual, expected)
}

/** Normalized, because another keyboard may type the same password with other code points. */
function derive(password: string, salt: Buffer, bits: number): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** bits, r: blockSize, p: 1, maxmem: 256 * blockSize * 2 ** bits }
  return new Promise((resolve, reject) =>
    scrypt(password.normalize('NFC'), salt, hashBytes, options, (error, hash) =>
      error ? reject(error) : resolve(hash),
    ),
  )
}

async function inSlot<T>(ownerId: string, work: () => Promise<T>): Promise<T> {
  const leavePlace = places.enterNow(ownerId)
  if (!leavePlace) throw new CodedError('KEEP_CALM', undefined, 10)
  const leave = await slots.enter(ownerId)
  try {
    return await work()
  } finally {
    leave?.()
    leavePlace()
  }
}
