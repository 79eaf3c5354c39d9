/** Ties a connection to one browser, so that no one can have another user's installation bound to their own account. */
const plainName = 'berth_git_connect'

/**
 * With https the prefix of the name lets only this host set it: a page of another host below the same domain, as every application is
 * by default, could otherwise set its own.
 */
const nameAt = (base: string): string => (isSecure(base) ? `__Host-${plainName}` : plainName)

const isSecure = (base: string): boolean => base.startsWith('https:')

/** The `Set-Cookie` that starts a connection at the API's address `base`, or ends it (no value, 0 seconds). */
export function connectCookie(base: string, value: string, seconds: number): string {
  const place = isSecure(base) ? 'Path=/; Secure' : `Path=${new URL(`${base}/git/connect`).pathname}`
  return `${nameAt(base)}=${value}; ${place}; Max-Age=${seconds}; HttpOnly; SameSite=Lax`
}

/** The browser's part of a connection, from a `Cookie` header; empty when there is none, and when there are two, as one was injected. */
export function connectCookieIn(base: string, header = ''): string {
  const name = `${nameAt(base)}=`
  const values = header
    .split(';')
    .map(pair => pair.trim())
    .filter(pair => pair.startsWith(name))
    .map(pair => pair.slice(name.length))
  const [only = ''] = values
  return values.length === 1 && /^[\w-]{1,100}$/.test(only) ? only : ''
}
