import ipaddr from 'ipaddr.js'
import { canonicalNetwork } from '../../lib/addresses.ts'
import { isHostName, type ServedSettings, SettingsRefused } from './port.ts'

/** One line of rules, and one for each kind of page. */
export interface SettingsLines {
  rules: string
  pages: string[]
}

/** The proxy's lines of an application's settings, and of its pages. Throws SettingsRefused for what it could not read. */
export function settingsLines(settings: ServedSettings): SettingsLines {
  const { host, appId, version, minTls, hsts, requestsPerMinute, blockedNetworks, maintenance, pages } = settings
  const refuse = (why: string) => new SettingsRefused(`${why}: ${JSON.stringify(host)}`)
  if (!isHostName(host)) throw refuse('Not a host name in lower case')
  if (!/^[\w-]+$/.test(appId)) throw refuse('Not an application id')
  if (!/^[\w.-]{1,64}$/.test(version)) throw refuse('Not a version')
  if (hsts !== null && !/^max-age=\d+(; includeSubDomains)?$/.test(hsts)) throw refuse('Not a value for browsers')
  if (requestsPerMinute !== null && !(Number.isSafeInteger(requestsPerMinute) && requestsPerMinute > 0))
    throw refuse('Not a number of requests')
  const blocked = blockedNetworks.map(network => {
    const written = networkLine(network)
    if (!written) throw refuse(`${JSON.stringify(network)} is no network`)
    return written
  })
  const rules = {
    host,
    appId,
    version,
    minTls,
    hsts: hsts ?? '',
    perMinute: requestsPerMinute ?? 0,
    maintenance,
    blocked,
    pages: kinds.filter(kind => pages[kind]),
  }
  return {
    rules: JSON.stringify(rules),
    pages: kinds.map(kind => (pages[kind] ? pageLine(kind, settings) : pageRemoval(kind, host))),
  }
}

/** The proxy's lines that remove the settings and pages of a host name. */
export function settingsRemoval(host: string): SettingsLines {
  return { rules: JSON.stringify({ host, removed: true }), pages: kinds.map(kind => pageRemoval(kind, host)) }
}

const kinds = ['error', 'maintenance'] as const
type PageKind = (typeof kinds)[number]

/** Base64 needs no escapes, whatever the page holds. With the version the proxy knows which rules a page belongs to. */
const pageLine = (kind: PageKind, { host, version, pages }: ServedSettings): string =>
  JSON.stringify({ page: `${kind} ${host}`, version, text: Buffer.from(pages[kind] ?? '').toString('base64') })

const pageRemoval = (kind: PageKind, host: string): string => JSON.stringify({ page: `${kind} ${host}`, removed: true })

/** All bytes of the address in hexadecimal digits and the number of bits that count; null for what is no network. */
function networkLine(network: string): string | null {
  const [address, bits] = canonicalNetwork(network)?.split('/') ?? []
  if (!address) return null
  const bytes = Buffer.from(ipaddr.parse(address).toByteArray())
  return `${bytes.toString('hex')}/${bits ?? bytes.length * 8}`
}
