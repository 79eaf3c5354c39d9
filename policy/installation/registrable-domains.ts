import { isIP } from 'node:net'
import type { Config } from '../config.ts'

/**
 * What browsers count as one site, by a rule without a list: the last two labels, or three below a country's short second level,
 * as in `example.co.uk`. Null for addresses and for names that only this machine knows. It knows no suffix that a list calls
 * public further down (`github.io`), so it says "the same" there.
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

/** Settings under which strangers' pages and files are served within one site with the API, and so may set its cookies. */
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
