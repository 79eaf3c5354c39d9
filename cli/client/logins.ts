import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

/** A key that a platform granted to `berth login`. */
export interface Login {
  apiKey: string
  email: string
  /** ISO 8601. */
  expiresAt: string
}

type Logins = Record<string, Login>

const file = (): string => join(process.env.XDG_CONFIG_HOME ?? join(homedir(), '.config'), 'berth', 'logins.json')

function read(): Logins {
  return existsSync(file()) ? (JSON.parse(readFileSync(file(), 'utf8')) as Logins) : {}
}

/** A platform is identified by the address of its API, with or without a trailing slash. */
const nameOf = (url: string): string => url.replace(/\/+$/, '')

/** The key for a platform; undefined when there is none, or it has expired. */
export function loginFor(url: string): Login | undefined {
  const login = read()[nameOf(url)]
  return login && Date.parse(login.expiresAt) > Date.now() ? login : undefined
}

/** Stores a login, or removes it (null), in a file that only this user can read. */
export function saveLogin(url: string, login: Login | null): void {
  const { [nameOf(url)]: _, ...others } = read()
  const logins: Logins = login ? { ...others, [nameOf(url)]: login } : others
  mkdirSync(dirname(file()), { recursive: true, mode: 0o700 })
  writeFileSync(`${file()}.new`, `${JSON.stringify(logins, null, 2)}\n`, { mode: 0o600, flush: true })
  renameSync(`${file()}.new`, file())
}
