import { type ArchiveLink, type Digest, type LinkTo, rewriteNpm, shaNames } from '../../../policy/packages/documents.ts'
import type { WantedDocument } from '../documents.ts'
import type { Asker } from '../store.ts'
import type { KindPaths, RegistryParts } from './kind.ts'

const npmName = '(?:@[\\w.~!*()-]+(?:/|%2[fF]))?[\\w.~!*()-]+'
const npmArchive = new RegExp(`^(${npmName})/-/[\\w.~!*()+-]+\\.tgz$`)
const npmDocument = new RegExp(`^(?!-/)(${npmName})(?:/([\\w.~!*()+-]+))?$`)
/** A scoped name may have its slash encoded. */
const plainName = (name: string): string => name.replace(/%2f/i, '/')
const npmShort = 'application/vnd.npm.install-v1+json'

/** Paths of a registry of npm: archives at its own address keep theirs. */
export function npm({ base, origin, variant, signLink, digestOf, remember, read }: RegistryParts): KindPaths {
  /** An archive at the registry's own address keeps its path, which lock files have too. Only the documents of its own package vouch for it. */
  const linkOf = (owner: string, archive: ArchiveLink): string | null => {
    const rest = archive.url.startsWith(base.href) ? archive.url.slice(base.href.length) : ''
    const [, name] = npmArchive.exec(rest) ?? []
    if (name === undefined || plainName(name) !== plainName(owner)) return signLink(archive)
    remember(archive)
    return origin + new URL(archive.url).pathname
  }

  const document = (name: string, version: string | undefined, accept: string): WantedDocument => ({
    url: base.href + (version === undefined ? name : `${name}/${version}`),
    accept: accept.includes(npmShort) ? `${npmShort}, application/json` : 'application/json',
    variant,
    rewrite: (text, _, at) =>
      rewriteNpm(text, version === undefined ? 'package' : 'version', at, archive => linkOf(name, archive)),
  })

  /** A lock file names archives without any document: the document of the version, or of the package, has their digests. */
  async function findDigest(name: string, url: string, asker: Asker): Promise<Digest | null> {
    const file = url.slice(url.lastIndexOf('/') + 1, -'.tgz'.length)
    const bare = name.split(/\/|%2f/i).at(-1)
    const version = file.startsWith(`${bare}-`) ? file.slice(bare!.length + 1) : undefined
    const link = origin + new URL(url).pathname
    for (const one of version ? [version, undefined] : [undefined]) {
      const text = await read(document(name, one, npmShort), asker)
      let digest: Digest | null = null
      const look: LinkTo = archive => {
        if (archive.url === link) digest = archive.digest
        return null
      }
      if (text !== null) rewriteNpm(text, one === undefined ? 'package' : 'version', base.href, look)
      if (digest) return digest
    }
    return null
  }

  return {
    at(path, accept) {
      const [, name] = npmArchive.exec(path) ?? []
      if (name) {
        const url = base.href + path
        return {
          kind: 'archive',
          archive: {
            url,
            digest: digestOf(url),
            algorithms: shaNames,
            findDigest: asker => findDigest(name, url, asker),
          },
        }
      }
      const [, owner, version] = npmDocument.exec(path) ?? []
      return owner ? { kind: 'document', document: document(owner, version, accept) } : null
    },
  }
}
