import ipaddr from 'ipaddr.js'
import { KiB } from '../../lib/bytes.ts'

/** What the owner of an application decides about requests to it. What is not set is absent. */
export interface NetworkSettings {
  /** Oldest version of TLS that clients may use. */
  min_tls?: '1.2' | '1.3'
  /** For how long browsers use https only, in seconds. */
  hsts_seconds?: number
  /** Requests that one address may send in a minute. */
  requests_per_minute?: number
  /** Addresses and networks that are refused. */
  blocked_networks?: string[]
  /** Every request is answered with the maintenance page. */
  maintenance?: boolean
  /** HTML. */
  maintenance_page?: string
  /** HTML, for requests that the application does not answer. */
  error_page?: string
}

export const networkSettingLimits = {
  /** Two years, which lists of browsers ask for at least half of. */
  maxHstsSeconds: 63_072_000,
  maxRequestsPerMinute: 100_000,
  maxNetworks: 100,
  maxPageBytes: 16 * KiB,
} as const

/** An address or network in its canonical form: `10.1.2.3/8` is `10.0.0.0/8`. Null for what is neither. */
export function canonicalNetwork(text: string): string | null {
  const [address = '', bits, ...rest] = text.trim().split('/')
  if (rest.length > 0 || !ipaddr.isValid(address) || !isPlain(address)) return null
  const parsed = ipaddr.process(address)
  const most = parsed.kind() === 'ipv4' ? 32 : 128
  if (bits === undefined) return parsed.toString()
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > most) return null
  const network = `${parsed.toString()}/${bits}`
  const Family = parsed.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6
  return `${Family.networkAddressFromCIDR(network).toString()}/${Number(bits)}`
}

/** Four numbers, or IPv6: a parser would also read `0x7f` or `1`. */
const isPlain = (address: string): boolean => address.includes(':') || /^\d{1,3}(\.\d{1,3}){3}$/.test(address)

/** What a change does to settings: null takes one off. */
export function changedSettings(
  before: NetworkSettings,
  change: { [Name in keyof NetworkSettings]?: NetworkSettings[Name] | null | undefined },
): NetworkSettings {
  const entries = Object.entries({ ...before, ...change })
  return Object.fromEntries(entries.filter(([, value]) => value !== null && value !== undefined)) as NetworkSettings
}
