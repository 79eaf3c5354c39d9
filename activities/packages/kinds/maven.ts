import { checksumIn, repositoryFile } from '../../../policy/packages/maven.ts'
import type { WantedDocument } from '../documents.ts'
import type { KindPaths, RegistryParts } from './kind.ts'

/** Paths of a repository of Maven. The digest of an archive lies next to it; that of a stored one follows from it. */
export function maven({ base, variant, read, hashOf }: RegistryParts): KindPaths {
  const document = (path: string): WantedDocument => ({ url: base.href + path, accept: '*/*', variant })

  return {
    at(path) {
      const url = base.href + path
      switch (repositoryFile(path)) {
        case 'document':
          return { kind: 'document', document: document(path) }
        case 'checksum': {
          const derive: WantedDocument['derive'] = asker => hashOf(url.slice(0, -'.sha1'.length), 'sha1', asker)
          return { kind: 'document', document: { ...document(path), derive } }
        }
        case 'archive':
          return {
            kind: 'archive',
            archive: {
              url,
              digest: null,
              algorithms: ['sha1'],
              async findDigest(asker) {
                const text = await read(document(`${path}.sha1`), asker)
                return text === null ? null : checksumIn(text)
              },
            },
          }
        case null:
          return null
      }
    },
  }
}
