import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'

/** What the cookie of one share says about its visitor: the password was right. */
export interface Visit {
  /** The content whose download was counted, so that what is left of it may be fetched freely. */
  counted: string | null
}

/** A visit is believed for so long, in seconds; a download that takes longer is counted again. */
export const visitSeconds = 86_400

export const visitCookieName = 'share'

/** The value of the cookie. */
export function visitValue(secret: Buffer, shareId: string, { counted }: Visit, now: Date): string {
  const said = `${counted ?? '-'}.${Math.floor(now.getTime() / 1000) + visitSeconds}`
  return `${said}.${signatureOf(secret, about(shareId, said))}`
}

/** What the cookies of a request say of this share; null when nothing, or something that was not ours or is too old. */
export function readVisit(secret: Buffer, shareId: string, cookies: string | undefined, now: Date): Visit | null {
  for (const cookie of (cookies ?? '').split(';')) {
    const [, counted, expires, signature] = form.exec(cookie.trim()) ?? []
    if (!counted || !expires || !signature || Number(expires) * 1000 <= now.getTime()) continue
    if (isSignatureOf(secret, about(shareId, `${counted}.${expires}`), signature))
      return { counted: counted === '-' ? null : counted }
  }
  return null
}

const form = new RegExp(`^${visitCookieName}=([\\w-]{1,64})\\.(\\d{10,11})\\.([\\w-]{43})$`)

/** The signature holds for one share only. */
const about = (shareId: string, said: string): string => `${shareId}\n${said}`
