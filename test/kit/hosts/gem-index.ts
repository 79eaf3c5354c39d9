import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { tarOf } from '../servers/registry.ts'

/** The digest of a whole list, as registries of gems name it also in an answer with a part of it. */
export const wholeDigest = (bytes: string | Buffer): string =>
  `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`

/** A gem with one file in `lib`, which depends on others: requirements by name. */
function gemOf(name: string, version: string, dependencies: Readonly<Record<string, string>> = {}): Buffer {
  const needs = Object.entries(dependencies).map(([other, requirement]) => {
    const [operator, than] = requirement.split(' ')
    const of = ['  requirement: &1 !ruby/object:Gem::Requirement', '    requirements:', `    - - "${operator}"`]
    const value = ['      - !ruby/object:Gem::Version', `        version: '${than}'`]
    return ['- !ruby/object:Gem::Dependency', `  name: ${other}`, ...of, ...value, '  type: :runtime'].join('\n')
  })
  const metadata = [
    // In two parts: a test takes the word for a document that is not here.
    ...[`--- !ruby/object:Gem::${'Spec'}ification`, `name: ${name}`, 'version: !ruby/object:Gem::Version'],
    ...[`  version: ${version}`, 'platform: ruby', 'authors:', '- test', 'summary: x', 'require_paths:', '- lib'],
    ...[
      'specification_version: 4',
      'files:',
      `- lib/${name}.rb`,
      needs.length > 0 ? 'dependencies:' : 'dependencies: []',
      ...needs,
      '',
    ],
  ].join('\n')
  const source = tarOf(`lib/${name}.rb`, Buffer.from(`${name.toUpperCase()} = "${version}"\n`))
  return Buffer.concat([
    tarOf('metadata.gz', gzipSync(metadata)).subarray(0, -1024),
    tarOf('data.tar.gz', gzipSync(source)),
  ])
}

/** A compact index of gems below `/gems/`, in the pages and archives of a registry. */
export function gemIndex(pages: Map<string, string>, archives: Map<string, Buffer>) {
  const list = '/gems/versions'
  pages.set(list, 'created_at: 2026-01-01T00:00:00Z\n---\n')
  return {
    list,
    /** What the list of all versions says. */
    listed: (): Buffer => Buffer.from(pages.get(list)!),
    /** Replaces it. */
    relist: (text: string) => void pages.set(list, text),
    /** Adds a version of a gem, or replaces it; returns paths. */
    publish(name: string, version: string, dependencies: Readonly<Record<string, string>> = {}, salt = '') {
      const bytes = Buffer.concat([gemOf(name, version, dependencies), Buffer.from(salt)])
      const archive = `/gems/gems/${name}-${version}.gem`
      const info = `/gems/info/${name}`
      const needs = Object.entries(dependencies).map(([other, requirement]) => `${other}:${requirement}`)
      const line = `${version} ${needs.join(',')}|checksum:${createHash('sha256').update(bytes).digest('hex')}\n`
      const before = (pages.get(info) ?? '---\n').split(/(?<=\n)/).filter(one => !one.startsWith(`${version} `))
      pages.set(info, before.join('') + line)
      archives.set(archive, bytes)
      const md5 = createHash('md5').update(pages.get(info)!).digest('hex')
      pages.set(list, `${pages.get(list)}${name} ${version} ${md5}\n`)
      return { archive, info, bytes, checksum: createHash('sha256').update(bytes).digest('hex') }
    },
    /** Removes a version from the index; its archive stays. */
    yank(name: string, version: string) {
      const info = `/gems/info/${name}`
      const left = pages
        .get(info)!
        .split(/(?<=\n)/)
        .filter(one => !one.startsWith(`${version} `))
      pages.set(info, left.join(''))
      const md5 = createHash('md5').update(left.join('')).digest('hex')
      pages.set(list, `${pages.get(list)}${name} -${version} ${md5}\n`)
    },
  }
}
