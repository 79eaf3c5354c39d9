import { createHash } from 'node:crypto'
import { zipOf } from '../zips.ts'

/** A package as lock files and reports list it. */
export interface ComposerPackage {
  name: string
  version: string
  type: string
  dist: { type: 'zip'; url: string; reference: string; shasum: string }
  [field: string]: unknown
}

/** A repository of Composer below `/composer/`, in the pages and archives of a registry. */
export function composerRepository(
  pages: Map<string, string>,
  archives: Map<string, Buffer>,
  registry: { readonly composer: string },
) {
  const packages: Record<string, Record<string, ComposerPackage>> = {}
  return {
    /** Publishes version 1.0.0 of a package with these files, in place of an earlier one; returns it and the path of its archive. */
    publish(name: string, files: Record<string, string>, fields: object = {}) {
      const path = `/composer/dists/${name}.zip`
      const bytes = zipOf(files)
      const shasum = createHash('sha1').update(bytes).digest('hex')
      const url = new URL(path, registry.composer).href
      const dist = { type: 'zip' as const, url, reference: shasum, shasum }
      const published: ComposerPackage = { name, version: '1.0.0', type: 'library', dist, ...fields }
      archives.set(path, bytes)
      packages[name] = { '1.0.0': published }
      pages.set('/composer/packages.json', JSON.stringify({ packages }))
      return { published, path }
    },
  }
}
