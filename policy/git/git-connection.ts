import { createHash, timingSafeEqual } from 'node:crypto'
import { type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { z } from 'zod'
import { deriveKey } from '../keys.ts'

/** Time for a person to install the app at the git provider and come back, and again to confirm. */
export const connectionSeconds = 600

const audience = 'berth-git-connect'
const offerAudience = 'berth-git-offer'

/** The account that started to connect, and its browser: a visit of another browser must not connect to that account. */
export interface Connection {
  userId: string
  /** The value of the browser's cookie. */
  browser: string
  /** Known once the provider has sent it. */
  installationId?: number
}

/** What the provider reported about the person who came back; bound once the account's session confirms it. */
export interface Offer {
  userId: string
  /** The value of the browser's cookie. */
  browser: string
  member: { id: number; login: string }
  installations: { id: number; account: string }[]
}

/** The signed `state` that a person carries to the git provider and back. */
export async function signConnection(
  masterKey: string,
  { userId, browser, installationId }: Connection,
): Promise<string> {
  return sign(masterKey, audience, userId, browser, { installation: installationId })
}

/** The connection of a genuine state of this browser; undefined for everything else. */
export async function readConnection(
  masterKey: string,
  state: string,
  browser: string,
): Promise<Omit<Connection, 'browser'> | undefined> {
  const payload = await read(masterKey, audience, state, browser)
  if (!payload) return undefined
  const { sub, installation } = payload
  return { userId: sub, installationId: typeof installation === 'number' ? installation : undefined }
}

/** The signed offer in the page that asks for the final confirmation. */
export async function signOffer(masterKey: string, { userId, browser, member, installations }: Offer): Promise<string> {
  return sign(masterKey, offerAudience, userId, browser, { member, installations })
}

const offered = z.object({
  member: z.object({ id: z.number(), login: z.string() }),
  installations: z.array(z.object({ id: z.number(), account: z.string() })),
})

/** A genuine offer to this browser; undefined for everything else. */
export async function readOffer(
  masterKey: string,
  offer: string,
  browser: string,
): Promise<Omit<Offer, 'browser'> | undefined> {
  const payload = await read(masterKey, offerAudience, offer, browser)
  const { data } = offered.safeParse(payload)
  return payload && data && { userId: payload.sub, ...data }
}

function sign(masterKey: string, to: string, userId: string, browser: string, claims: JWTPayload): Promise<string> {
  return new SignJWT({ ...claims, browser: browserHash(browser).toString('base64url') })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(userId)
    .setAudience(to)
    .setExpirationTime(`${connectionSeconds}s`)
    .sign(connectionKey(masterKey))
}

async function read(
  masterKey: string,
  to: string,
  token: string,
  browser: string,
): Promise<(JWTPayload & { sub: string }) | undefined> {
  try {
    const { payload } = await jwtVerify(token, connectionKey(masterKey), {
      algorithms: ['HS256'],
      audience: to,
      requiredClaims: ['exp', 'sub', 'browser'],
    })
    const signedHash = Buffer.from(String(payload.browser), 'base64url')
    const ownHash = browserHash(browser)
    if (!payload.sub || signedHash.length !== ownHash.length || !timingSafeEqual(signedHash, ownHash)) return undefined
    return { ...payload, sub: payload.sub }
  } catch {
    return undefined
  }
}

const connectionKey = (masterKey: string): Buffer => deriveKey(masterKey, 'git-connect')

const browserHash = (browser: string): Buffer => createHash('sha256').update(browser).digest()
