import { isIP } from 'node:net'
import { type Environment, integer, list, required } from '../environment.ts'

/** An authority that issues certificates by ACME (RFC 8555), and the account there. */
export interface AcmeSettings {
  /** Setting it means agreeing to the terms of the authority. */
  directoryUrl: string
  /** Sent to the authority as contact. */
  email: string | null
  /** The account with the operator that the ACME account is bound to, where an authority requires one. */
  externalAccount: { keyId: string; hmacKey: string } | null
  /** PEM, or the path of a file that holds it: authorities that sign the directory's own certificate, in addition to the system's. */
  caBundle: string | null
}

/** Settings of custom domains and of certificates. */
export interface DomainSettings {
  acme: AcmeSettings | null
  /** Zone whose name server is ours: it answers challenges of names that delegate theirs to it. */
  acmeDnsDomain: string | null
  /** Port of that name server. */
  dnsPort: number
  /** Addresses and networks at which visitors reach the proxy. */
  publicAddresses: string[]
  /** Port at which visitors and authorities reach the proxy by http. */
  publicPort: number
  /** Resolvers, as `address` or `address:port`; empty = those of the system. */
  dnsServers: string[]
}

/** Throws an Error that names the setting and what it accepts. */
export function domainSettings(env: Environment): DomainSettings {
  return {
    acme: acmeSettings(env),
    acmeDnsDomain: env.ACME_DNS_DOMAIN === undefined ? null : domainOf(env.ACME_DNS_DOMAIN),
    dnsPort: portOf(env, 'EDGE_DNS_PORT', 53),
    publicAddresses: all(list(env.EDGE_PUBLIC_ADDRESSES), isNetwork, 'EDGE_PUBLIC_ADDRESSES', 'addresses or networks'),
    publicPort: portOf(env, 'EDGE_PUBLIC_PORT', 80),
    dnsServers: all(
      list(env.DNS_SERVERS),
      isServer,
      'DNS_SERVERS',
      'addresses of resolvers, each with or without a port',
    ),
  }
}

function acmeSettings(env: Environment): AcmeSettings | null {
  const names = ['ACME_EMAIL', 'ACME_EAB_KID', 'ACME_EAB_HMAC', 'ACME_CA_BUNDLE'].filter(
    name => env[name] !== undefined,
  )
  if (env.ACME_DIRECTORY_URL === undefined && names.length === 0) return null
  const directoryUrl = required(env, 'ACME_DIRECTORY_URL')
  if (!URL.canParse(directoryUrl) || new URL(directoryUrl).protocol !== 'https:')
    throw new Error(`The setting ACME_DIRECTORY_URL is "${directoryUrl}"; it must be an https address.`)
  const isBound = env.ACME_EAB_KID !== undefined || env.ACME_EAB_HMAC !== undefined
  return {
    directoryUrl,
    email: env.ACME_EMAIL ?? null,
    externalAccount: isBound ? { keyId: required(env, 'ACME_EAB_KID'), hmacKey: hmacKeyOf(env) } : null,
    caBundle: env.ACME_CA_BUNDLE ?? null,
  }
}

/** Secret: no error repeats it. */
function hmacKeyOf(env: Environment): string {
  const text = required(env, 'ACME_EAB_HMAC')
  if (!/^[\w+/-]{16,}={0,2}$/.test(text))
    throw new Error('The setting ACME_EAB_HMAC must be the key in base64url, as the authority shows it.')
  return text
}

function domainOf(text: string): string {
  const name = text.toLowerCase().replace(/\.$/, '')
  if (/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/.test(name)) return name
  throw new Error(`The setting ACME_DNS_DOMAIN is "${text}"; it must be a domain, such as acme.example.com.`)
}

function portOf(env: Environment, name: string, fallback: number): number {
  const port = integer(env, name, fallback)
  if (port < 1 || port > 65_535)
    throw new Error(`The setting ${name} is "${env[name]}"; it must be a port number from 1 to 65535.`)
  return port
}

function all(entries: string[], isFit: (entry: string) => boolean, name: string, words: string): string[] {
  const wrong = entries.find(entry => !isFit(entry))
  if (wrong === undefined) return entries
  throw new Error(`The setting ${name} has "${wrong}"; it must be ${words}, separated by commas.`)
}

function isNetwork(entry: string): boolean {
  const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(entry) ?? []
  const family = isIP(address)
  return family !== 0 && (bits === undefined || Number(bits) <= (family === 4 ? 32 : 128))
}

function isServer(entry: string): boolean {
  const [, bracketed, bare, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(entry) ?? []
  const isAddress = isIP(entry) !== 0 || isIP(bracketed ?? bare ?? '') !== 0
  return isAddress && (port === undefined || (Number(port) >= 1 && Number(port) <= 65_535))
}
