import { unbracketed } from '../../lib/addresses.ts'

/** The address of a git server. */
export interface GitAddress {
  /** Without user and password, as passed to git. */
  url: string
  /** Lower case, no dot at the end; IPv6 without brackets. */
  host: string
  port: number
  secure: boolean
}

const hostName = /^[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?$/
const maxUrlLength = 2048

/**
 * The address in a clone URL, or null when it must not be fetched: http and https only, without user, and nothing that git could take
 * for an option. Numeric and Unicode forms are normalized to the address they mean, as in browsers.
 */
export function gitAddress(text: string): GitAddress | null {
  if (
    text.length > maxUrlLength ||
    !/^https?:\/\/(?!\/)[^\s\u0000-\u0020\u007f\\#@]+$/i.test(text) ||
    !URL.canParse(text)
  )
    return null
  const url = new URL(text)
  if (url.username || url.password || url.search || url.hash) return null
  // A name with a trailing dot would be pinned under one spelling and looked up under another.
  url.hostname = url.hostname.replace(/\.$/, '')
  const host = unbracketed(url.hostname)
  if (!host || (!hostName.test(host) && !host.includes(':'))) return null
  const secure = url.protocol === 'https:'
  return { url: url.href.replace(/\/+$/, ''), host, port: Number(url.port) || (secure ? 443 : 80), secure }
}

/** `host:port`, as in the setting GIT_ALLOWED_HOSTS. */
export function hostAndPort({ host, port }: GitAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Whether the operator allows this server, even with private addresses. */
export function isOpened(address: GitAddress, allowedHosts: readonly string[]): boolean {
  return allowedHosts.some(entry => entry.toLowerCase() === hostAndPort(address))
}

/** Whether a token may be sent to the target of a redirect: only to the same server, or from http to https on it. */
export function mayKeepToken(from: GitAddress, to: GitAddress): boolean {
  if (from.host !== to.host) return false
  return from.secure === to.secure ? from.port === to.port : to.secure && from.port === 80 && to.port === 443
}

/** User names for access tokens; most servers accept any. */
const tokenUsers: Record<string, string> = { 'bitbucket.org': 'x-token-auth', 'gitlab.com': 'oauth2' }

export function tokenUser({ host }: GitAddress): string {
  return tokenUsers[host] ?? 'x-access-token'
}

/** Whether git accepts this as the name of a branch (git check-ref-format). */
export function isBranchName(name: string): boolean {
  if (!name || Buffer.byteLength(name) > 256) return false
  if (/[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|^@$/.test(name)) return false
  return name.split('/').every(part => !part.startsWith('.') && !part.endsWith('.lock'))
}
