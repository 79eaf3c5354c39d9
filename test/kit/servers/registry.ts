import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { ignoreError } from '../../../lib/async/ignore-error.ts'

export interface TestRegistry {
  /** Name of its image, with the address of the registry. */
  image: string
  /** Bytes of layers that it has sent. */
  sent(): number
  /** From now on it sends without pauses. */
  hurry(): void
  close(): void
}

const types = {
  manifest: 'application/vnd.docker.distribution.manifest.v2+json',
  config: 'application/vnd.docker.container.image.v1+json',
  layer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
}
const pieceBytes = 256 * 1024
const digest = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** A registry on loopback with one image of random layers of these sizes in MB, which it sends slowly. */
export async function testRegistry(layersMb: readonly number[]): Promise<TestRegistry> {
  const blobs = new Map<string, Buffer>()
  const store = (bytes: Buffer) => {
    blobs.set(digest(bytes), bytes)
    return { size: bytes.length, digest: digest(bytes) }
  }
  const tars = layersMb.map((mb, n) => tarOf(`layer-${n}`, randomBytes(mb * 1024 * 1024)))
  const layers = tars.map(tar => ({ mediaType: types.layer, ...store(gzipSync(tar, { level: 0 })) }))
  const rootfs = { type: 'layers', diff_ids: tars.map(digest) }
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch
  const config = Buffer.from(JSON.stringify({ architecture, os: 'linux', config: { Cmd: ['/none'] }, rootfs }))
  const manifest = store(
    Buffer.from(
      JSON.stringify({
        ...{ schemaVersion: 2, mediaType: types.manifest, layers },
        config: { mediaType: types.config, ...store(config) },
      }),
    ),
  )
  let [sent, slow] = [0, true]
  const server = createServer(async (request, response) => {
    const { url = '' } = request
    const name = url.slice(url.lastIndexOf('/') + 1)
    const bytes = blobs.get(url.includes('/manifests/') && !name.startsWith('sha256:') ? manifest.digest : name)
    if (url === '/v2/') return response.end('{}')
    if (!bytes) return response.writeHead(404).end('{"errors":[{"code":"NAME_UNKNOWN"}]}')
    const type = url.includes('/manifests/') ? types.manifest : 'application/octet-stream'
    const headers = { 'content-type': type, 'content-length': bytes.length, 'docker-content-digest': digest(bytes) }
    response.writeHead(200, headers)
    if (request.method === 'HEAD') return response.end()
    async function* pieces(of: Buffer) {
      for (let at = 0; at < of.length; at += pieceBytes) {
        if (slow) await sleep(20)
        const piece = of.subarray(at, at + pieceBytes)
        if (type !== types.manifest) sent += piece.length
        yield piece
      }
    }
    await pipeline(pieces(bytes), response).catch(ignoreError('the engine gave the pull up'))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    image: `127.0.0.1:${port}/berth-test/tiny:1`,
    sent: () => sent,
    hurry: () => {
      slow = false
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** An archive of one file. */
export function tarOf(name: string, bytes: Buffer): Buffer {
  const head = Buffer.alloc(512)
  head.write(name)
  head.write('0000644\0', 100)
  for (const at of [108, 116]) head.write('0000000\0', at)
  head.write(`${bytes.length.toString(8).padStart(11, '0')}\0`, 124)
  head.write('00000000000\0', 136)
  head.write('        0', 148)
  head.write('ustar\x0000', 257)
  const sum = head.reduce((total, byte) => total + byte, 0)
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  const fill = Buffer.alloc((512 - (bytes.length % 512)) % 512)
  return Buffer.concat([head, bytes, fill, Buffer.alloc(1024)])
}
