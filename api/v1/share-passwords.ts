import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { ApiError } from '../../policy/errors.ts'

const costBits = 15
const blockSize = 8
const hashBytes = 32

/** Each takes 32 MB and most of a second of a core: so many at once, and so many waiting. */
const most = { running: 2, waiting: 20 }
const slots = new FairSlots({ atOnce: most.running })
/** Running and waiting. */
let inAll = 0

/** What is kept of a password. Throws KEEP_CALM when too many are being hashed. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16)
  const hash = await inTurn(() => derive(password, salt, costBits))
  return ['scrypt', costBits, salt.toString('base64url'), hash.toString('base64url')].join('$')
}

/** Whether this is the password of which that was kept. Throws KEEP_CALM as `hashPassword` does. */
export async function isPassword(password: string, kept: string): Promise<boolean> {
  const [, bits, salt = '', hash = ''] = kept.split('$')
  const known = Buffer.from(hash, 'base64url')
  const made = await inTurn(() => derive(password, Buffer.from(salt, 'base64url'), Number(bits)))
  return made.length === known.length && timingSafeEqual(made, known)
}

/** The same password may be typed with other code points on another keyboard. */
function derive(password: string, salt: Buffer, bits: number): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** bits, r: blockSize, p: 1, maxmem: 256 * blockSize * 2 ** bits }
  return new Promise((resolve, reject) =>
    scrypt(password.normalize('NFC'), salt, hashBytes, options, (error, hash) =>
      error ? reject(error) : resolve(hash),
    ),
  )
}

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (inAll >= most.running + most.waiting) throw new ApiError('KEEP_CALM', undefined, 10)
  inAll++
  const leave = await slots.enter('')
  try {
    return await work()
  } finally {
    leave?.()
    inAll--
  }
}
