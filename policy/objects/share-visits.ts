import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'

/** The content of a share's cookie: its visitor entered the right password. */
export interface Visit {
  /** The generation whose download was counted, so that the rest of it may be fetched without counting again. */
  counted: string | null
}

/** How long a visit is valid, in seconds; a download that takes longer is counted again. */
export const visitSeconds = 86_400

export const visitCookieName = 'share'

/** The value of the cookie. */
export function visitValue(secret: Buffer, shareId: string, { counted }: Visit, now: Date): string {
  const visit = `${counted ?? '-'}.${Math.floor(now.getTime() / 1000) + visitSeconds}`
  return `${visit}.${signatureOf(secret, signed(shareId, visit))}`
}

/** The visit in the cookies of a request to this share; null when there is none, or it is forged or expired. */
export function readVisit(secret: Buffer, shareId: string, cookies: string | undefined, now: Date): Visit | null {
  for (const cookie of (cookies ?? '').split(';')) {
    const [, counted, expires, signature] = form.exec(cookie.trim()) ?? []
    if (!counted || !expires || !signature || Number(expires) * 1000 <= now.getTime()) continue
    if (isSignatureOf(secret, signed(shareId, `${counted}.${expires}`), signature))
      return { counted: counted === '-' ? null : counted }
  }
  return null
}

const form = new RegExp(`^${visitCookieName}=([\\w-]{1,64})\\.(\\d{10,11})\\.([\\w-]{43})$`)

/** The signed text; it contains the share, so that a cookie is valid for one share only. */
const signed = (shareId: string, visit: string): string => `${shareId}\n${visit}`
