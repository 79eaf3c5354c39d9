import { gemDigests, gemPath, gemsOf } from '../../../policy/packages/gems.ts'
import type { WantedDocument } from '../documents.ts'
import type { KindPaths, RegistryParts } from './kind.ts'

/** Paths of a compact index of gems. Its document of a gem has the digests of the archives. */
export function bundler({ base, variant, digestOf, remember, read }: RegistryParts): KindPaths {
  const archiveUrl = (file: string): string => `${base.href}gems/${file}.gem`
  const document = (path: string): WantedDocument => ({ url: base.href + path, accept: '*/*', variant })
  const info = (name: string): WantedDocument => ({
    ...document(`info/${name}`),
    // A version that the registry has replaced has another digest from now on.
    rewrite(text) {
      for (const [version, digest] of gemDigests(text))
        remember({ url: archiveUrl(`${name}-${version}`), digest, metadata: null })
      return text
    },
  })

  return {
    at(path) {
      const gem = gemPath(path)
      switch (gem?.kind) {
        case 'list':
          return { kind: 'list', url: base.href + path }
        case 'info':
          return { kind: 'document', document: info(gem.name) }
        case 'document':
          return { kind: 'document', document: document(path) }
        case 'archive': {
          const url = archiveUrl(gem.file)
          return {
            kind: 'archive',
            archive: {
              url,
              digest: digestOf(url),
              algorithms: ['sha256'],
              async findDigest(asker) {
                for (const { name, version } of gemsOf(gem.file)) {
                  const text = await read(info(name), asker)
                  const digest = text === null ? null : gemDigests(text).get(version)
                  if (digest) return digest
                }
                return null
              },
            },
          }
        }
        default:
          return null
      }
    },
  }
}
