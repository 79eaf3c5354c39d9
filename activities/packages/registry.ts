import { hash } from 'node:crypto'
import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import {
  type ArchiveLink,
  type Digest,
  type LinkTo,
  rewriteNpm,
  rewriteSimpleHtml,
  rewriteSimpleJson,
} from '../../policy/packages/documents.ts'
import type { RegistryKind } from '../../policy/packages/registries.ts'
import type { WantedArchive } from './archives.ts'
import type { WantedDocument } from './documents.ts'
import type { CachedRegistry } from './job.ts'
import type { Asker } from './store.ts'

/** What a path of the cache stands for. */
type Wanted = { kind: 'archive'; archive: WantedArchive } | { kind: 'document'; document: WantedDocument }

export interface RegistryOptions {
  registry: CachedRegistry
  /** Address of the cache for this registry, without a slash at its end. */
  origin: string
  /** Signs the addresses of archives: only those that a document of the registry has named are downloaded. */
  key: Buffer
  /** The text of a document as the registry has it now; null when it has none, or does not answer. */
  read(document: WantedDocument, asker: Asker): Promise<string | null>
}

export interface RegistryPaths {
  /** Null for a path that the cache does not serve. `accept` is the header of the request. */
  wanted(path: string, accept: string): Wanted | null
}

const npmName = '(?:@[\\w.~!*()-]+(?:/|%2[fF]))?[\\w.~!*()-]+'
const npmArchive = new RegExp(`^(${npmName})/-/[\\w.~!*()+-]+\\.tgz$`)
const npmDocument = new RegExp(`^(?!-/)(${npmName})(?:/([\\w.~!*()+-]+))?$`)
/** A scoped name may have its slash encoded. */
const plainName = (name: string): string => name.replace(/%2f/i, '/')
const npmShort = 'application/vnd.npm.install-v1+json'
const pageJson = 'application/vnd.pypi.simple.v1+json'
const pageHtml = 'application/vnd.pypi.simple.v1+html'

/** Paths of the cache that stand for those of a registry: equal ones, and signed ones for archives elsewhere. */
export function registryPaths({ registry, origin, key, read }: RegistryOptions): RegistryPaths {
  const base = new URL(registry.url)
  const variant = `${origin} ${hash('sha256', key)}`
  /** Digests by the address of their archive: the newest. */
  const digests = new Map<string, Digest>()

  function remember({ url, digest }: ArchiveLink): void {
    digests.delete(url)
    digests.set(url, digest)
    const [oldest] = digests.keys()
    if (digests.size > packageCacheRules.remembered) digests.delete(oldest!)
  }

  const withRegistry = (text: string): string => `${registry.url}\n${text}`

  function signed({ url, digest, metadata }: ArchiveLink): string {
    const text = Buffer.from(JSON.stringify([url, digest, metadata])).toString('base64url')
    const name = new URL(url).pathname.split('/').at(-1)
    return `${origin}/~/${signatureOf(key, withRegistry(text))}/${text}/${name}`
  }

  function archiveOf(path: string): WantedArchive | null {
    const [, mac = '', text = '', suffix] = /^\/~\/([\w-]{43})\/([\w-]+)\/[^/]*?(\.metadata)?$/.exec(path) ?? []
    if (!isSignatureOf(key, withRegistry(text), mac)) return null
    const [url, digest, metadata] = JSON.parse(Buffer.from(text, 'base64url').toString()) as [string, Digest, Digest]
    const findDigest = async () => null
    return suffix ? { url: `${url}${suffix}`, digest: metadata, findDigest } : { url, digest, findDigest }
  }

  /** An archive of npm at the registry's own address keeps its path, which lock files have too. Only the documents of its own package vouch for it. */
  const npmLink = (owner: string, archive: ArchiveLink): string | null => {
    const rest = archive.url.startsWith(base.href) ? archive.url.slice(base.href.length) : ''
    const [, name] = npmArchive.exec(rest) ?? []
    if (name === undefined || plainName(name) !== plainName(owner))
      return /^https:|^http:/.test(archive.url) && isSafe(archive.url) ? signed(archive) : null
    remember(archive)
    return origin + new URL(archive.url).pathname
  }

  const isSafe = (url: string) => base.protocol === 'http:' || url.startsWith('https:')
  const pageLink: LinkTo = archive => (isSafe(archive.url) ? signed(archive) : null)

  const npm = (name: string, version: string | undefined, accept: string): WantedDocument => ({
    url: base.href + (version === undefined ? name : `${name}/${version}`),
    accept: accept.includes(npmShort) ? `${npmShort}, application/json` : 'application/json',
    variant,
    rewrite: (text, _, at) =>
      rewriteNpm(text, version === undefined ? 'package' : 'version', at, archive => npmLink(name, archive)),
  })

  /** A lock file names archives without any document: the one of the version says what they contain, or that of the package. */
  async function npmDigest(name: string, url: string, asker: Asker): Promise<Digest | null> {
    const file = url.slice(url.lastIndexOf('/') + 1, -'.tgz'.length)
    const bare = name.split(/\/|%2f/i).at(-1)
    const version = file.startsWith(`${bare}-`) ? file.slice(bare!.length + 1) : undefined
    const link = origin + new URL(url).pathname
    for (const one of version ? [version, undefined] : [undefined]) {
      const text = await read(npm(name, one, npmShort), asker)
      let found: Digest | null = null
      const look: LinkTo = archive => {
        if (archive.url === link) found = archive.digest
        return null
      }
      if (text !== null) rewriteNpm(text, one === undefined ? 'package' : 'version', base.href, look)
      if (found) return found
    }
    return null
  }

  const kinds: Record<RegistryKind, (rest: string, accept: string) => Wanted | null> = {
    npm(rest, accept) {
      const [, name] = npmArchive.exec(rest) ?? []
      if (name) {
        const url = base.href + rest
        return {
          kind: 'archive',
          archive: { url, digest: digests.get(url) ?? null, findDigest: asker => npmDigest(name, url, asker) },
        }
      }
      const [, owner, version] = npmDocument.exec(rest) ?? []
      return owner ? { kind: 'document', document: npm(owner, version, accept) } : null
    },
    pip(rest, accept) {
      if (!/^[\w.-]+\/$/.test(rest)) return null
      const isJson = accept.includes(pageJson)
      return {
        kind: 'document',
        document: {
          url: base.href + rest,
          accept: isJson ? `${pageJson}, ${pageHtml};q=0.1, text/html;q=0.01` : `${pageHtml}, text/html;q=0.1`,
          variant,
          rewrite: (text, type, at) =>
            type.includes('json') ? rewriteSimpleJson(text, at, pageLink) : rewriteSimpleHtml(text, at, pageLink),
        },
      }
    },
  }

  return {
    wanted(path, accept) {
      if (path.startsWith('/~/')) {
        const archive = archiveOf(path)
        return archive && { kind: 'archive', archive }
      }
      return path.startsWith(base.pathname) ? kinds[registry.kind](path.slice(base.pathname.length), accept) : null
    },
  }
}
