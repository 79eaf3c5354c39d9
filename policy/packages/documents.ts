import { packageCacheRules } from './cache-rules.ts'

/** A digest that a document of a registry names, as the name of an algorithm and lower-case hex. */
export interface Digest {
  /** The last two are `h1` of Go: of the files in an archive of a module, and of a `go.mod`. */
  algorithm: (typeof shaNames)[number] | 'h1-zip' | 'h1-mod'
  hex: string
}

/** An archive that a document names, with what it says about its content. */
export interface ArchiveLink {
  url: string
  digest: Digest
  /** Of the metadata that lies next to it, at the same address with `.metadata`. */
  metadata: Digest | null
}

/** Returns where the cache serves an archive; null = nowhere, so the link stays as it is. */
export type LinkTo = (archive: ArchiveLink) => string | null

/** From the weakest to the strongest. */
export const shaNames = ['sha1', 'sha256', 'sha384', 'sha512'] as const
type ShaDigest = Digest & { algorithm: (typeof shaNames)[number] }

const hexLengths = { sha1: 40, sha256: 64, sha384: 96, sha512: 128 }

/** A digest in hex; null for another text. */
export function shaDigestOf(algorithm: string, hex: string): ShaDigest | null {
  const name = shaNames.find(one => one === algorithm)
  const isWhole = name && hex.length === hexLengths[name] && /^[0-9a-f]+$/i.test(hex)
  return isWhole ? { algorithm: name, hex: hex.toLowerCase() } : null
}

/** The strongest digest of a text in the form of Subresource Integrity; null without one. */
export function integrityOf(text: unknown): Digest | null {
  if (typeof text !== 'string' || text.length > 1000) return null
  const digests = text.split(/\s+/).flatMap(one => {
    const [, algorithm = '', value = ''] = /^(sha\d+)-([A-Za-z0-9+/=]+)/.exec(one) ?? []
    return shaDigestOf(algorithm, Buffer.from(value, 'base64').toString('hex')) ?? []
  })
  return digests.sort((a, b) => shaNames.indexOf(b.algorithm) - shaNames.indexOf(a.algorithm))[0] ?? null
}

type Fields = Record<string, unknown>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * A document of npm in which the archives with a digest lead to the cache. Its address says whether it is one of a package or of a version:
 * the content of the latter is its publisher's, with any further fields. Throws for what is none.
 */
export function rewriteNpm(text: string, of: 'package' | 'version', at: string, linkTo: LinkTo): string {
  const document: unknown = JSON.parse(text)
  if (!isFields(document)) throw new Error('It is no document of npm.')
  const versions = of === 'version' ? [document] : isFields(document.versions) ? Object.values(document.versions) : []
  demandFew(versions.length)
  for (const version of versions) {
    const dist = isFields(version) ? version.dist : null
    if (!isFields(dist) || typeof dist.tarball !== 'string') continue
    const url = absolute(dist.tarball, at)
    const digest =
      integrityOf(dist.integrity) ?? (typeof dist.shasum === 'string' ? shaDigestOf('sha1', dist.shasum) : null)
    const archive = url && digest && { url, digest, metadata: null }
    const link = archive && linkTo(archive)
    if (link) dist.tarball = link
  }
  return JSON.stringify(document)
}

/** A page of a Python index as JSON (PEP 691), in which the files with a digest lead to the cache, and all others to where they are. Throws for what is none. */
export function rewriteSimpleJson(text: string, at: string, linkTo: LinkTo): string {
  const page: unknown = JSON.parse(text)
  if (!isFields(page) || !Array.isArray(page.files)) throw new Error('It is no page of a Python index.')
  demandFew(page.files.length)
  for (const file of page.files) {
    if (!isFields(file) || typeof file.url !== 'string') continue
    const url = absolute(file.url, at)
    if (!url) continue
    const metadata = [file['core-metadata'], file['dist-info-metadata'], file['data-dist-info-metadata']]
      .map(sha256In)
      .find(one => one !== null)
    const digest = sha256In(file.hashes)
    const archive = digest && { url, digest, metadata: metadata ?? null }
    file.url = (archive && linkTo(archive)) ?? url
  }
  return JSON.stringify(page)
}

const sha256In = (hashes: unknown): Digest | null =>
  isFields(hashes) && typeof hashes.sha256 === 'string' ? shaDigestOf('sha256', hashes.sha256) : null

/** A page of a Python index as HTML (PEP 503), in which the files with a digest lead to the cache, and all others to where they are. */
export function rewriteSimpleHtml(text: string, at: string, linkTo: LinkTo): string {
  let links = 0
  const counted: LinkTo = archive => {
    const link = linkTo(archive)
    if (link) demandFew(++links)
    return link
  }
  const pieces: string[] = []
  let from = at
  let done = 0
  // Tag by tag: the time is in proportion to the length, whatever it contains.
  for (let start = text.indexOf('<'); start >= 0; start = text.indexOf('<', done)) {
    const end = text.indexOf('>', start)
    if (end < 0) break
    pieces.push(text.slice(done, start))
    done = end + 1
    const tag = text.slice(start, done)
    if (tag.length > maxTag) pieces.push(tag)
    else if (/^<base\s/i.test(tag))
      from = hrefOf(tag, at)?.url ?? from // the links are whole then
    else if (/^<a\s/i.test(tag)) pieces.push(rewriteAnchor(tag, from, counted))
    else pieces.push(tag)
  }
  return pieces.join('') + text.slice(done)
}

const maxTag = 5000

function rewriteAnchor(tag: string, from: string, linkTo: LinkTo): string {
  const href = hrefOf(tag, from)
  if (!href) return tag
  const [url = '', fragment = ''] = href.url.split('#')
  const digest = shaDigestOf('sha256', /^sha256=([0-9a-f]{64})$/i.exec(fragment)?.[1] ?? '')
  const beside = /\sdata-(?:core|dist-info)-metadata\s*=\s*["']sha256=([0-9a-f]{64})["']/i.exec(tag)?.[1]
  const archive = digest && { url, digest, metadata: beside ? shaDigestOf('sha256', beside) : null }
  const link = archive && linkTo(archive)
  const target = link ? `${link}#${fragment}` : href.url
  return tag.replace(href.text, () => ` href="${target.replaceAll('&', '&amp;').replaceAll('"', '%22')}"`)
}

/** The link of a tag as it stands there, and where it leads from an address; null without one. */
function hrefOf(tag: string, from: string): { text: string; url: string } | null {
  const [text = '', , href = ''] = /\shref\s*=\s*(["'])(.*?)\1/is.exec(tag) ?? []
  const url = text && absolute(href.replaceAll('&amp;', '&'), from)
  return url ? { text, url } : null
}

function demandFew(links: number): void {
  if (links > packageCacheRules.links) throw new Error('The document has too many links.')
}

/** An http or https address without credentials; null for anything else. */
function absolute(reference: string, at: string): string | null {
  if (reference.length > packageCacheRules.pathLength || !URL.canParse(reference, at)) return null
  const url = new URL(reference, at)
  return /^https?:$/.test(url.protocol) && !url.username && !url.password ? url.href : null
}
