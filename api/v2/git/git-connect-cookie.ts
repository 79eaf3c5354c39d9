/** Ties a connection to one browser, so that nobody can have another person's installation bound to an own account. */
const plainName = 'berth_git_connect'

/**
 * With https the name says that only this very host may set it: a page of another host below the same domain, which any
 * application is by default, could otherwise put its own there.
 */
const nameAt = (base: string): string => (isSecure(base) ? `__Host-${plainName}` : plainName)

const isSecure = (base: string): boolean => base.startsWith('https:')

/** The `Set-Cookie` that begins a connection at the API's address `base`, or ends it (no value, 0 seconds). */
export function connectCookie(base: string, value: string, seconds: number): string {
  const place = isSecure(base) ? 'Path=/; Secure' : `Path=${new URL(`${base}/git/connect`).pathname}`
  return `${nameAt(base)}=${value}; ${place}; Max-Age=${seconds}; HttpOnly; SameSite=Lax`
}

/** The browser's part of a connection, of a `Cookie` header; empty when there is none, and when there are two: one was slipped in. */
export function connectCookieIn(base: string, header = ''): string {
  const name = `${nameAt(base)}=`
  const found = header
    .split(';')
    .map(pair => pair.trim())
    .filter(pair => pair.startsWith(name))
    .map(pair => pair.slice(name.length))
  const [only = ''] = found
  return found.length === 1 && /^[\w-]{1,100}$/.test(only) ? only : ''
}
