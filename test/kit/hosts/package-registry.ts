import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { tarOf } from '../servers/registry.ts'
import { zipOf } from '../zips.ts'

/** Answers a request instead of the registry; false = it does not. */
type Instead = (request: IncomingMessage, response: ServerResponse) => boolean

export interface PackageRegistry {
  /** Addresses of the two registries that it is, with a slash at their ends. */
  npm: string
  pip: string
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
  /** Removes what was published behind a path; documents still name it. */
  unpublish(path: string): void
  /** Replaces the bytes behind a path, whatever documents say about them. */
  tamper(path: string, bytes: Buffer): void
  instead: Instead
  close(): Promise<void>
}

const hex = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest('hex')

/** A registry of npm and an index of Python that count what is requested, at this address. */
export async function packageRegistry(address = '127.0.0.1'): Promise<PackageRegistry> {
  const packages = new Map<string, Record<string, object>>()
  const wheels = new Map<string, { path: string; sha256: string; metadata: string }[]>()
  const archives = new Map<string, Buffer>()
  const requests: string[] = []
  let last: IncomingMessage['headers'] = {}

  function documentFor(path: string): { type: string; text: string } | null {
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
    ...{ npm: '', pip: '', port: 0, requests, instead: () => false },
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
    unpublish: path => void archives.delete(path),
    tamper: (path, bytes) => void archives.set(path, bytes),
    async close() {
      server.close()
      server.closeAllConnections()
    },
  }

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '', headers } = request
    requests.push(`${method} ${url}`)
    last = headers
    if (registry.instead(request, response)) return
    const bytes = archives.get(url)
    const document = bytes ? null : documentFor(url)
    if (!bytes && !document) return void response.writeHead(404).end('{}')
    if (bytes) return void response.writeHead(200, { 'content-length': bytes.length }).end(bytes)
    const etag = `"${hex('sha1', Buffer.from(document!.text))}"`
    if (headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end()
    response.writeHead(200, { 'content-type': document!.type, etag }).end(document!.text)
  }
  const server = createServer(answer)
  await once(server.listen(0, address), 'listening')
  registry.port = (server.address() as AddressInfo).port
  registry.npm = `http://${address}:${registry.port}/npm/`
  registry.pip = `http://${address}:${registry.port}/simple/`
  return registry
}
