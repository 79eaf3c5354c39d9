/** What the owner of an application decides about the requests to it. Contract 4.38. */
export interface AppSettings {
  /** Clients with an older version of TLS get no connection for its host names. */
  min_tls: '1.2' | '1.3'
  /** Strict-Transport-Security. */
  hsts: Hsts
  /** Max requests of one client address in a minute; 0 = no limit. */
  requests_per_minute: number
  /** Addresses and networks whose requests are refused, in canonical form. */
  blocked_networks: string[]
  /** Every request is answered with the maintenance page. */
  maintenance: boolean
  /** HTML; empty = the platform's own page. */
  maintenance_page: string
  /** HTML, shown while the application is not reachable; empty = the platform's own page. */
  error_page: string
}

export interface Hsts {
  enabled: boolean
  /** Seconds for which browsers use https only; with 0 they forget an earlier value. */
  max_age: number
  include_subdomains: boolean
}

const defaultHsts: Hsts = { enabled: false, max_age: 31_536_000, include_subdomains: false }

export const defaultAppSettings: AppSettings = {
  min_tls: '1.2',
  hsts: defaultHsts,
  requests_per_minute: 0,
  blocked_networks: [],
  maintenance: false,
  maintenance_page: '',
  error_page: '',
}

/** Every proxy holds all settings in memory (policy/edge/tables.ts), so they are bounded. Networks and sizes of pages are those of an application. */
export const appSettingsBounds = {
  pageBytes: 16_384,
  /** All pages of an account together. */
  accountPageBytes: 65_536,
  networks: 100,
  requestsPerMinute: 1_000_000,
  /** Two years. */
  hstsSeconds: 63_072_000,
} as const

/** Changes of some settings; those that are left out stay as they are. */
export type AppSettingsChanges = Partial<Omit<AppSettings, 'hsts'> & { hsts: Partial<Hsts> }>

/** All settings after these changes. */
export function changedSettings(before: AppSettings, { hsts, ...changes }: AppSettingsChanges): AppSettings {
  const set = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
  const hstsSet = Object.fromEntries(Object.entries(hsts ?? {}).filter(([, value]) => value !== undefined))
  return { ...before, ...set, hsts: { ...before.hsts, ...hstsSet } }
}

/** UTF-8 bytes of the pages. */
export function pageBytes({ maintenance_page, error_page }: AppSettings): number {
  return Buffer.byteLength(maintenance_page) + Buffer.byteLength(error_page)
}

/** The value of Strict-Transport-Security; null = it is not sent. */
export function hstsHeader({ enabled, max_age, include_subdomains }: Hsts): string | null {
  return enabled ? `max-age=${max_age}${include_subdomains ? '; includeSubDomains' : ''}` : null
}
