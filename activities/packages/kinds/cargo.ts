import {
  crateDigest,
  crateIn,
  cratePath,
  crateUrl,
  isCratePath,
  rewriteIndexSettings,
} from '../../../policy/packages/crates.ts'
import type { WantedDocument } from '../documents.ts'
import type { KindPaths, RegistryParts } from './kind.ts'

const settingsPath = 'config.json'

/** A sparse index of cargo. Its settings have the address of archives, and its document of a crate their digests. */
export function cargo({ base, variant, sealText, read }: RegistryParts): KindPaths {
  const document = (path: string): WantedDocument => ({ url: base.href + path, accept: '*/*', variant })
  const settings = { ...document(settingsPath), rewrite: (text: string) => rewriteIndexSettings(text, sealText) }

  return {
    at(path) {
      if (path === settingsPath) return { kind: 'document', document: settings }
      return isCratePath(path) ? { kind: 'document', document: document(path) } : null
    },
    atSealed(pattern, path) {
      const crate = crateIn(path)
      const url = crate && crateUrl(pattern, crate)
      if (!url || (base.protocol === 'https:' && !url.startsWith('https:'))) return null
      return {
        kind: 'archive',
        archive: {
          url,
          digest: null,
          algorithms: ['sha256'],
          async findDigest(asker) {
            const text = await read(document(cratePath(crate.name)), asker)
            return text === null ? null : crateDigest(text, crate.version)
          },
        },
      }
    },
  }
}
