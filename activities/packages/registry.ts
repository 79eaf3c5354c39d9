import { hash } from 'node:crypto'
import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import type { ArchiveLink, Digest } from '../../policy/packages/documents.ts'
import type { RegistryKind } from '../../policy/packages/registries.ts'
import type { WantedArchive } from './archives.ts'
import type { CachedRegistry } from './job.ts'
import { bundler } from './kinds/bundler.ts'
import { cargo } from './kinds/cargo.ts'
import { go } from './kinds/go.ts'
import type { KindPaths, RegistryParts, Wanted } from './kinds/kind.ts'
import { maven } from './kinds/maven.ts'
import { npm } from './kinds/npm.ts'
import { pip } from './kinds/pip.ts'

/** What the paths of each kind of registry stand for. A new kind is a new row, and one in the table of package managers. */
const kinds: Readonly<Record<RegistryKind, (parts: RegistryParts) => KindPaths>> = {
  ...{ npm, pip, go, cargo, maven, bundler },
}

export interface RegistryOptions extends Pick<RegistryParts, 'origin' | 'read' | 'hashOf'> {
  registry: CachedRegistry
  /** Signs the addresses of archives: only those that a document of the registry has named are downloaded. */
  key: Buffer
}

export interface RegistryPaths {
  /** Null for a path that the cache does not serve. `accept` is the header of the request. */
  parse(path: string, accept: string): Wanted | null
}

/** Paths of the cache that stand for those of a registry: equal ones, and signed ones for archives elsewhere. */
export function registryPaths({ registry, key, origin, ...reading }: RegistryOptions): RegistryPaths {
  const base = new URL(registry.url)
  /** Digests by the address of their archive: the newest. */
  const digests = new Map<string, Digest>()

  function remember({ url, digest }: ArchiveLink): void {
    digests.delete(url)
    digests.set(url, digest)
    const [oldest] = digests.keys()
    if (digests.size > packageCacheRules.remembered) digests.delete(oldest!)
  }

  const withRegistry = (text: string): string => `${registry.url}\n${text}`

  function seal(value: unknown): string {
    const text = Buffer.from(JSON.stringify(value)).toString('base64url')
    return `${origin}/~/${signatureOf(key, withRegistry(text))}/${text}`
  }

  function signLink({ url, digest, metadata }: ArchiveLink): string | null {
    if (base.protocol !== 'http:' && !url.startsWith('https:')) return null
    return `${seal([url, digest, metadata])}/${new URL(url).pathname.split('/').at(-1)}`
  }

  function unsealed(path: string): { value: unknown; rest: string } | null {
    const [, mac = '', text = '', rest = ''] = /^\/~\/([\w-]{43})\/([\w-]+)\/(.*)$/.exec(path) ?? []
    if (!isSignatureOf(key, withRegistry(text), mac)) return null
    return { value: JSON.parse(Buffer.from(text, 'base64url').toString()), rest }
  }

  function archiveOf([url, digest, metadata]: [string, Digest, Digest], name: string): WantedArchive {
    const rest = { algorithms: [], findDigest: async () => null }
    return name.endsWith(metadataSuffix)
      ? { url: url + metadataSuffix, digest: metadata, ...rest }
      : { url, digest, ...rest }
  }

  const variant = `${origin} ${hash('sha256', key)}`
  const digestOf = (url: string): Digest | null => digests.get(url) ?? null
  const paths = kinds[registry.kind]({
    base,
    origin,
    variant,
    signLink,
    sealText: seal,
    digestOf,
    remember,
    ...reading,
  })

  return {
    parse(path, accept) {
      if (path.startsWith('/~/')) {
        const target = unsealed(path)
        if (typeof target?.value === 'string') return paths.atSealed?.(target.value, target.rest) ?? null
        return target && { kind: 'archive', archive: archiveOf(target.value as [string, Digest, Digest], target.rest) }
      }
      return path.startsWith(base.pathname) ? paths.at(path.slice(base.pathname.length), accept) : null
    },
  }
}

/** Of the file that lies next to an archive. */
const metadataSuffix = '.metadata'
