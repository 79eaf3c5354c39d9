import { isIP } from 'node:net'
import type { Config } from '../config.ts'

/**
 * What browsers treat as one site, by a rule without a list: the last two labels, or three below a country's short second level, as in
 * `example.co.uk`. Null for addresses and for names of this machine only. It does not know longer public suffixes (`github.io`), and
 * treats names below them as one site.
 */
export function registrableDomain(host: string): string | null {
  const name = host.toLowerCase().replace(/\.$/, '')
  const labels = name.split('.')
  if (isIP(name.replace(/^\[|\]$/g, '')) || labels.length < 2 || labels.at(-1) === 'localhost') return null
  const [second = '', top = ''] = labels.slice(-2)
  const isShort = top.length === 2 && second.length <= 3
  return labels.slice(isShort ? -3 : -2).join('.')
}

type Names = Pick<Config, 'appsDomain'> & { urls: Pick<Config['urls'], 'base' | 'files' | 'public'> }

/** Settings with which users' pages and files are on the same site as the API, so that they could set its cookies. */
export function settingsWithinSite({ appsDomain, urls }: Names): string[] {
  const own = registrableDomain(new URL(urls.base).hostname)
  const others = {
    APPS_DOMAIN: appsDomain,
    FILES_URL: new URL(urls.files).hostname,
    PUBLIC_URL: new URL(urls.public).hostname,
  }
  if (own === null) return []
  return Object.entries(others).flatMap(([setting, host]) => (registrableDomain(host) === own ? [setting] : []))
}
