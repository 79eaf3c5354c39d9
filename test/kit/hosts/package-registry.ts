import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { NamedRegistries } from '../../../policy/packages/registries.ts'
import { tarOf } from '../servers/registry.ts'
import { zipOf } from '../zips.ts'
import { composerRepository } from './composer-repository.ts'
import { gemIndex, wholeDigest } from './gem-index.ts'

/** Answers a request instead of the registry; false = it does not. */
type Instead = (request: IncomingMessage, response: ServerResponse) => boolean

export interface PackageRegistry {
  /** Addresses of the registries that it is, with a slash at their ends. */
  npm: string
  pip: string
  go: string
  cargo: string
  maven: string
  bundler: string
  /** The same, as settings of an operator. */
  named: NamedRegistries
  /** Address of a repository of Composer, of which hosts store nothing. */
  composer: string
  port: number
  /** Method and path of each request. */
  requests: string[]
  /** Headers of the last request. */
  headers(): IncomingMessage['headers']
  /** How often a path was requested. */
  count(path: string): number
  /** Adds a version of a package of npm, whose document has further fields; returns its archive's path and digest. */
  publish(
    name: string,
    version: string,
    filler?: string,
    fields?: object,
  ): { path: string; integrity: string; bytes: Buffer }
  /** Adds a version whose archive is this one. */
  publishArchive(
    name: string,
    version: string,
    bytes: Buffer,
    fields?: object,
  ): { path: string; integrity: string; bytes: Buffer }
  /** Adds a wheel, which its page links outside of the index; returns its path. */
  publishWheel(name: string, version: string): { path: string; sha256: string; bytes: Buffer }
  /** Adds a version of a module of Go with these files, to which its checksum database says what they are; returns paths and what go.sum has of it. */
  publishModule(
    module: string,
    version: string,
    files?: Record<string, string>,
  ): { zip: string; mod: string; lookup: string; bytes: Buffer; sums: string }
  /** Adds a version of a crate with a name of four letters or more; returns paths. */
  publishCrate(name: string, version: string): { archive: string; index: string; bytes: Buffer }
  /** Adds a release of Maven in the group `test`, with what its repository says about its versions; returns paths. */
  publishRelease(artifact: string, version: string): { jar: string; pom: string; metadata: string; bytes: Buffer }
  gems: ReturnType<typeof gemIndex>
  php: ReturnType<typeof composerRepository>
  /** Removes what was published behind a path; documents still name it. */
  unpublish(path: string): void
  /** Replaces the bytes behind a path, whatever documents say about them. */
  tamper(path: string, bytes: Buffer): void
  instead: Instead
  close(): Promise<void>
}

const hex = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest('hex')

/** The hash of Go of these files. */
function h1(files: readonly (readonly [string, string])[]): string {
  const lines = [...files]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, text]) => `${hex('sha256', Buffer.from(text))}  ${name}\n`)
  return `h1:${createHash('sha256').update(lines.join('')).digest('base64')}`
}

/** A registry of npm, an index of Python, a module proxy, an index of cargo, repositories of Maven and Composer and an index of gems that count what is requested, at this address. */
export async function packageRegistry(address = '127.0.0.1'): Promise<PackageRegistry> {
  const packages = new Map<string, Record<string, object>>()
  const pages = new Map<string, string>()
  const wheels = new Map<string, { path: string; sha256: string; metadata: string }[]>()
  const archives = new Map<string, Buffer>()
  const requests: string[] = []
  let last: IncomingMessage['headers'] = {}

  function documentFor(path: string): { type: string; text: string } | null {
    const page = pages.get(path)
    if (page !== undefined) return { type: 'text/plain', text: page }
    const [, name = '', version] = /^\/npm\/((?:@[^/]+(?:\/|%2f))?[^/]+)(?:\/([^/]+))?$/i.exec(path) ?? []
    const named = name.replace(/%2f/i, '/')
    const versions = packages.get(named)
    if (versions) {
      const latest = Object.keys(versions).at(-1)
      const whole = { name: named, 'dist-tags': { latest }, versions }
      const text = version ? JSON.stringify(versions[version] ?? null) : JSON.stringify(whole)
      return text === 'null' ? null : { type: 'application/json', text }
    }
    const files = wheels.get(/^\/simple\/([^/]+)\/$/.exec(path)?.[1] ?? '')
    if (!files) return null
    const links = files.map(
      file =>
        `<a href="http://${address}:${registry.port}${file.path}#sha256=${file.sha256}" data-dist-info-metadata="sha256=${file.metadata}" data-core-metadata="sha256=${file.metadata}">${file.path.split('/').at(-1)}</a>`,
    )
    return { type: 'text/html', text: `<!DOCTYPE html><html><body>${links.join('<br>')}</body></html>` }
  }

  const registry: PackageRegistry = {
    ...{
      npm: '',
      pip: '',
      go: '',
      cargo: '',
      maven: '',
      bundler: '',
      composer: '',
      port: 0,
      requests,
      instead: () => false,
    },
    get named() {
      const { npm, pip, go, cargo, maven, bundler } = registry
      return { npm, pip, go, cargo, maven, bundler }
    },
    gems: gemIndex(pages, archives),
    get php() {
      return php
    },
    headers: () => last,
    count: path => requests.filter(one => one === `GET ${path}`).length,
    publish(name, version, filler = '', fields = {}) {
      const manifest = Buffer.from(JSON.stringify({ name, version, filler }))
      return registry.publishArchive(name, version, gzipSync(tarOf('package/package.json', manifest)), fields)
    },
    publishArchive(name, version, bytes, fields = {}) {
      const path = `/npm/${name}/-/${name.split('/').at(-1)}-${version}.tgz`
      const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
      const tarball = `http://${address}:${registry.port}${path}`
      packages.set(name, {
        ...packages.get(name),
        [version]: { ...fields, name, version, dist: { tarball, integrity, shasum: hex('sha1', bytes) } },
      })
      archives.set(path, bytes)
      return { path, integrity, bytes }
    },
    publishWheel(name, version) {
      const info = `${name}-${version}.dist-info`
      const metadata = `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`
      const bytes = zipOf({
        [`${name}.py`]: `version = "${version}"\n`,
        [`${info}/METADATA`]: metadata,
        [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
        [`${info}/RECORD`]: `${name}.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`,
      })
      const path = `/files/${name}-${version}-py3-none-any.whl`
      const sha256 = hex('sha256', bytes)
      const file = { path, sha256, metadata: hex('sha256', Buffer.from(metadata)) }
      wheels.set(name, [...(wheels.get(name) ?? []), file])
      archives.set(path, bytes)
      archives.set(`${path}.metadata`, Buffer.from(metadata))
      return { path, sha256, bytes }
    },
    publishModule(module, version, files = {}) {
      const contents = {
        'go.mod': `module ${module}\n`,
        'tiny.go': `package tiny\n\nconst Version = "${version}"\n`,
        ...files,
      }
      const named = Object.entries(contents).map(([name, text]) => [`${module}@${version}/${name}`, text] as const)
      const bytes = zipOf(Object.fromEntries(named))
      const escaped = module.replace(/[A-Z]/g, letter => `!${letter.toLowerCase()}`)
      const at = `/go/${escaped}/@v/${version}`
      const sums = `${module} ${version} ${h1(named)}\n${module} ${version}/go.mod ${h1([['go.mod', contents['go.mod']]])}\n`
      const lookup = `/go/sumdb/sum.golang.org/lookup/${escaped}@${version}`
      pages.set(lookup, `17\n${sums}\ngo.sum database tree\n`)
      pages.set(`${at}.info`, JSON.stringify({ Version: version, Time: '2026-01-01T00:00:00Z' }))
      archives.set(`${at}.mod`, Buffer.from(contents['go.mod']))
      archives.set(`${at}.zip`, bytes)
      return { zip: `${at}.zip`, mod: `${at}.mod`, lookup, bytes, sums }
    },
    publishCrate(name, version) {
      const manifest = `[package]\nname = "${name}"\nversion = "${version}"\n`
      const files = [
        tarOf(`${name}-${version}/src/lib.rs`, Buffer.from('')),
        tarOf(`${name}-${version}/Cargo.toml`, Buffer.from(manifest)),
      ]
      const bytes = gzipSync(Buffer.concat([files[0]!.subarray(0, -1024), files[1]!]))
      const archive = `/crates/${name}/${name}-${version}.crate`
      const index = `/index/${name.slice(0, 2)}/${name.slice(2, 4)}/${name}`.toLowerCase()
      const line = { name, vers: version, deps: [], cksum: hex('sha256', bytes), features: {}, yanked: false }
      pages.set(index, `${pages.get(index) ?? ''}${JSON.stringify(line)}\n`)
      const dl = `http://${address}:${registry.port}/crates/{crate}/{crate}-{version}.crate`
      pages.set('/index/config.json', JSON.stringify({ dl, api: null }))
      archives.set(archive, bytes)
      return { archive, index, bytes }
    },
    publishRelease(artifact, version) {
      const at = `/maven/test/${artifact}/${version}/${artifact}-${version}`
      const metadata = `/maven/test/${artifact}/maven-metadata.xml`
      const bytes = zipOf({ 'version.txt': version })
      const ids = `<groupId>test</groupId><artifactId>${artifact}</artifactId>`
      const pom = `<project><modelVersion>4.0.0</modelVersion>${ids}<version>${version}</version></project>`
      pages.set(
        metadata,
        `<metadata>${ids}<versioning><versions><version>${version}</version></versions></versioning></metadata>`,
      )
      for (const [path, content] of [
        [`${at}.jar`, bytes],
        [`${at}.pom`, Buffer.from(pom)],
      ] as const) {
        archives.set(path, content)
        pages.set(`${path}.sha1`, hex('sha1', content))
      }
      return { jar: `${at}.jar`, pom: `${at}.pom`, metadata, bytes }
    },
    unpublish(path) {
      archives.delete(path)
      pages.delete(path)
    },
    tamper: (path, bytes) => void archives.set(path, bytes),
    async close() {
      server.close()
      server.closeAllConnections()
    },
  }

  const php = composerRepository(pages, archives, registry)

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', headers } = request
    const url = decodeURI(request.url ?? '')
    requests.push(`${method} ${url}`)
    last = headers
    if (registry.instead(request, response)) return
    const bytes = archives.get(url)
    const document = bytes ? null : documentFor(url)
    if (!bytes && !document) return void response.writeHead(404).end('{}')
    if (bytes) return void response.writeHead(200, { 'content-length': bytes.length }).end(bytes)
    const whole = Buffer.from(document!.text)
    const etag = `"${hex('sha1', whole)}"`
    if (headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end()
    const start = /^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1]
    const head = { 'content-type': document!.type, etag, 'repr-digest': wholeDigest(whole) }
    response.writeHead(start === undefined ? 200 : 206, head).end(whole.subarray(Number(start ?? 0)))
  }
  const server = createServer(answer)
  await once(server.listen(0, address), 'listening')
  registry.port = (server.address() as AddressInfo).port
  registry.npm = `http://${address}:${registry.port}/npm/`
  registry.cargo = `http://${address}:${registry.port}/index/`
  registry.maven = `http://${address}:${registry.port}/maven/`
  registry.composer = `http://${address}:${registry.port}/composer/`
  registry.bundler = `http://${address}:${registry.port}/gems/`
  registry.go = `http://${address}:${registry.port}/go/`
  registry.pip = `http://${address}:${registry.port}/simple/`
  return registry
}
