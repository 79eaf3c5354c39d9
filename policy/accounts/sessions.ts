import { jwtVerify, SignJWT } from 'jose'
import { deriveKey } from '../keys.ts'

const issuer = 'berth'
const audience = 'berth-api'
const keyId = 's1'
/** Max difference between the clocks of two machines. */
export const sessionSkewSeconds = 60

export function sessionKey(masterKey: string): Uint8Array {
  return deriveKey(masterKey, 'session')
}

/** The token of a stored session. */
export async function signSession(
  masterKey: string,
  session: { id: string; userId: string; expiresAt: Date },
): Promise<string> {
  return new SignJWT({ sid: session.id })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid: keyId })
    .setSubject(session.userId)
    .setIssuer(issuer)
    .setAudience(audience)
    .setIssuedAt()
    .setExpirationTime(session.expiresAt)
    .sign(sessionKey(masterKey))
}

/** Session and account id of a genuine, unexpired token; undefined for everything else. */
export async function readSession(key: Uint8Array, token: string): Promise<{ id: string; userId: string } | undefined> {
  try {
    const { payload, protectedHeader } = await jwtVerify(token, key, {
      algorithms: ['HS256'],
      issuer,
      audience,
      clockTolerance: sessionSkewSeconds,
      requiredClaims: ['exp', 'sub', 'sid'],
    })
    if (protectedHeader.kid !== keyId || typeof payload.sid !== 'string' || !payload.sub) return undefined
    return { id: payload.sid, userId: payload.sub }
  } catch {
    return undefined
  }
}
