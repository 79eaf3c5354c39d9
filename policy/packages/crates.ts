import type { Digest } from './documents.ts'

/** The folders in which the index of cargo has a crate, in the case of its name. */
function prefixOf(name: string): string {
  if (name.length < 3) return String(name.length)
  return name.length === 3 ? `3/${name[0]}` : `${name.slice(0, 2)}/${name.slice(2, 4)}`
}

/** Path of what the index of cargo says about a crate. */
export function cratePath(name: string): string {
  const lower = name.toLowerCase()
  return `${prefixOf(lower)}/${lower}`
}

const crateName = '[A-Za-z][\\w-]*'

/** Whether a path of the index says something about a crate. */
export function isCratePath(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return new RegExp(`^${crateName}$`).test(name) && path.toLowerCase() === cratePath(name)
}

/** Name and version in the last part of an address of an archive; null for another text. */
export function crateIn(path: string): { name: string; version: string } | null {
  const [, name = '', version = ''] = new RegExp(`^(${crateName})/(\\d[\\w.+-]*)\\.crate$`).exec(path) ?? []
  return name === '' ? null : { name, version }
}

/**
 * The settings of an index, with another address of its archives: `linkTo` returns it for the one of the index, which is a pattern. Throws
 * for what is none, and for a pattern with a digest.
 */
export function rewriteIndexSettings(text: string, linkTo: (pattern: string) => string): string {
  const { dl, ...settings } = JSON.parse(text) as Record<string, unknown>
  if (typeof dl !== 'string' || dl.includes('{sha256-checksum}')) throw new Error('It does not say where archives are.')
  return JSON.stringify({ ...settings, dl: `${linkTo(dl)}/{crate}/{version}.crate` })
}

/** The address of an archive by the pattern of its index; null for none of http or https without credentials. */
export function crateUrl(pattern: string, { name, version }: { name: string; version: string }): string | null {
  const marked = /\{(?:crate|version|prefix|lowerprefix)\}/.test(pattern)
    ? pattern
    : `${pattern}/{crate}/{version}/download`
  const values: Record<string, string> = {
    crate: name,
    version,
    prefix: prefixOf(name),
    lowerprefix: prefixOf(name.toLowerCase()),
  }
  const url = marked.replace(/\{(crate|version|prefix|lowerprefix)\}/g, (_, marker: string) => values[marker] ?? '')
  if (!/^https?:/.test(url) || !URL.canParse(url)) return null
  const { href, username, password } = new URL(url)
  return username || password ? null : href
}

/** The digest of a version's archive in what the index says about its crate; null where it has none. */
export function crateDigest(text: string, version: string): Digest | null {
  for (const line of text.split('\n')) {
    const { vers, cksum } = line === '' ? ({} as Record<string, unknown>) : JSON.parse(line)
    if (vers === version && typeof cksum === 'string' && /^[0-9a-f]{64}$/.test(cksum))
      return { algorithm: 'sha256', hex: cksum }
  }
  return null
}
