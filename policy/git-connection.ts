import { createHash, timingSafeEqual } from 'node:crypto'
import { jwtVerify, SignJWT } from 'jose'
import { deriveKey } from './keys.ts'

/** A person has this long to install the app at the git provider and come back. */
export const connectionSeconds = 600

const audience = 'berth-git-connect'

/** Who set out to connect an account, and in which browser: nobody else's visit to the provider may end in that account. */
export interface Connection {
  userId: string
  /** What the browser's cookie holds. */
  browser: string
  /** Known once the provider has named it. */
  installationId?: number
}

/** The signed `state` that a person carries to the git provider and back. */
export async function signConnection(
  masterKey: string,
  { userId, browser, installationId }: Connection,
): Promise<string> {
  return new SignJWT({ browser: browserHash(browser).toString('base64url'), installation: installationId })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(userId)
    .setAudience(audience)
    .setExpirationTime(`${connectionSeconds}s`)
    .sign(connectionKey(masterKey))
}

/** Whose connection a genuine state of this browser is; undefined for everything else, whatever is wrong with it. */
export async function readConnection(
  masterKey: string,
  state: string,
  browser: string,
): Promise<Omit<Connection, 'browser'> | undefined> {
  try {
    const { payload } = await jwtVerify(state, connectionKey(masterKey), {
      algorithms: ['HS256'],
      audience,
      requiredClaims: ['exp', 'sub', 'browser'],
    })
    const known = Buffer.from(String(payload.browser), 'base64url')
    const held = browserHash(browser)
    if (!payload.sub || known.length !== held.length || !timingSafeEqual(known, held)) return undefined
    const { installation } = payload
    return { userId: payload.sub, installationId: typeof installation === 'number' ? installation : undefined }
  } catch {
    return undefined
  }
}

const connectionKey = (masterKey: string): Buffer => deriveKey(masterKey, 'git-connect')

const browserHash = (browser: string): Buffer => createHash('sha256').update(browser).digest()
