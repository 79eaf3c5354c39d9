import { checksumsOf, isModuleDocument, moduleDigest, moduleFileAt } from '../../../policy/packages/go-modules.ts'
import type { WantedDocument } from '../documents.ts'
import type { KindPaths, RegistryParts } from './kind.ts'

/** Paths of a module proxy. Its answers of the checksum database have the hashes of archives and go.mod files; the go command alone verifies that. */
export function go({ base, variant, read }: RegistryParts): KindPaths {
  const document = (path: string): WantedDocument => ({ url: base.href + path, accept: '*/*', variant })

  return {
    at(requested) {
      // The go command encodes what stands before a capital letter, and the registry has it as it is.
      const path = requested.replaceAll('%21', '!')
      const file = moduleFileAt(path)
      if (!file) return isModuleDocument(path) ? { kind: 'document', document: document(path) } : null
      return {
        kind: 'archive',
        archive: {
          url: base.href + path,
          digest: null,
          algorithms: [`h1-${file.file}`],
          async findDigest(asker) {
            const record = await read(document(checksumsOf(file)), asker)
            return record === null ? null : moduleDigest(record, file)
          },
        },
      }
    },
  }
}
