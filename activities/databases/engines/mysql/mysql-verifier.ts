import { createHash } from 'node:crypto'
import { randomBase62 } from '../../../../policy/ids.ts'

const saltLength = 20
/** What the server itself uses; stored in thousands. */
const rounds = 10_000

/**
 * What MySQL stores of a password (`caching_sha2_password`: SHA-crypt with SHA-256), so that the password itself never reaches the
 * server: neither its list of running statements nor its logs could show it.
 */
export function mysqlVerifier(password: string, salt: string = randomBase62(saltLength)): string {
  const thousands = (rounds / 1000).toString(16).toUpperCase().padStart(3, '0')
  return `$A$${thousands}$${salt}${encode(sha256Crypt(Buffer.from(password), Buffer.from(salt)))}`
}

const sha256 = (...parts: Buffer[]): Buffer => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** The algorithm of `$5$` in crypt(5), with the salt in its full length. */
function sha256Crypt(password: Buffer, salt: Buffer): Buffer {
  const alternate = sha256(password, salt, password)
  const first = [password, salt, stretch(alternate, password.length)]
  for (let bits = password.length; bits > 0; bits >>= 1) first.push(bits & 1 ? alternate : password)
  let digest = sha256(...first)
  const ofPassword = stretch(sha256(...Array(password.length).fill(password)), password.length)
  const ofSalt = stretch(sha256(...Array(16 + digest[0]!).fill(salt)), salt.length)
  for (let round = 0; round < rounds; round++) {
    const parts = [round % 2 ? ofPassword : digest]
    if (round % 3) parts.push(ofSalt)
    if (round % 7) parts.push(ofPassword)
    parts.push(round % 2 ? digest : ofPassword)
    digest = sha256(...parts)
  }
  return digest
}

/** The bytes repeated up to this length. */
const stretch = (bytes: Buffer, length: number): Buffer => Buffer.alloc(length, bytes)

const alphabet = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Base64 in the order of crypt(5): three bytes each, which are a third of the digest apart. */
function encode(digest: Buffer): string {
  let text = ''
  for (let i = 0, [a, b, c] = [0, 10, 20] as [number, number, number]; i < 10; i++) {
    text += group((digest[a]! << 16) | (digest[b]! << 8) | digest[c]!, 4)
    ;[a, b, c] = [c + 1, a + 1, b + 1]
  }
  return text + group((digest[31]! << 8) | digest[30]!, 3)
}

function group(bits: number, characters: number): string {
  let text = ''
  for (let i = 0; i < characters; i++) text += alphabet[(bits >> (6 * i)) & 63]
  return text
}
