import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

const iterations = 4096
const saltBytes = 16

/**
 * What Postgres stores of a password for SCRAM-SHA-256 (RFC 5803), so that the password itself never reaches the server: neither its list of
 * running statements nor its log could show it. The password must be ASCII, which needs no normalization.
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(saltBytes)): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const hmac = (text: string) => createHmac('sha256', salted).update(text).digest()
  const storedKey = createHash('sha256').update(hmac('Client Key')).digest('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${hmac('Server Key').toString('base64')}`
}
