import { once } from 'node:events'
import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { BodyMismatch, type ObjectStore } from '../../../activities/objects/port.ts'
import { openObjectStore } from '../../../activities/objects/select.ts'
import { newId } from '../../../policy/ids.ts'
import { objectStoreContract } from '../../contracts/object-store.ts'
import { bodyOf, hex, noise } from '../../kit/bodies.ts'
import { startS3 } from '../../kit/servers/s3.ts'

const s3 = await startS3()
const temporary = await mkdtemp(join(tmpdir(), 'berth-spool-'))
let store: ObjectStore

test.before(async () => {
  store = await openObjectStore(s3.config, { temporaryFolder: temporary })
})

test.after.always(async () => {
  await s3.close()
  await rm(temporary, { recursive: true, force: true })
})

// This development endpoint does not support durability after kill -9 and on a full disk.
objectStoreContract(
  test,
  () => store,
  () => readdir(temporary),
)

test('an existing bucket is used', async t => {
  await t.notThrowsAsync(openObjectStore(s3.config, { temporaryFolder: temporary }))
})

test('an endpoint that does not answer soon is an error', async t => {
  const config = { ...s3.config, endpoint: 'http://127.0.0.1:9' }
  await t.throwsAsync(openObjectStore(config, { temporaryFolder: temporary }), { code: 'ECONNREFUSED' })
})

/** A scripted endpoint: answers puts with the next of these statuses, and reports the same for every body; null = it has none. */
async function scripted(puts: number[], reported: { size: number; etag?: string } | null) {
  const requests: { method: string; headers: IncomingMessage['headers'] }[] = []
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    requests.push({ method: request.method!, headers: request.headers })
    const isBucket = request.url!.split('/').filter(Boolean).length === 1
    if (request.method === 'PUT') response.writeHead(puts.shift()!).end()
    else if (request.method === 'DELETE') response.writeHead(204).end()
    else if (isBucket || reported === null) response.writeHead(isBucket ? 200 : 404).end()
    else
      response.writeHead(200, { 'content-length': reported.size, ...(reported.etag && { etag: reported.etag }) }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { requests, server, store: await openObjectStore({ ...s3.config, endpoint }, { temporaryFolder: temporary }) }
}

test('a put carries the hashes of its bytes and is sent again after a 503', async t => {
  const bytes = noise(200_000)
  const { requests, server, store } = await scripted([503, 200], { size: bytes.length })
  await store.put(newId(), bodyOf(bytes))
  const puts = requests.filter(({ method }) => method === 'PUT')
  t.is(puts.length, 2)
  for (const { headers } of puts) {
    t.is(headers['content-md5'], Buffer.from(hex('md5', bytes), 'hex').toString('base64'))
    t.is(headers['x-amz-content-sha256'], hex('sha256', bytes))
    t.is(headers['content-length'], '200000')
    t.is(headers['content-encoding'], undefined)
  }
  server.close()
})

test('an endpoint that answers 200 but stores other bytes is detected', async t => {
  const bytes = noise(200_000)
  const changed = Buffer.from(bytes)
  changed[100_000]! ^= 1
  const etagOf = (kept: Buffer) => ({ size: kept.length, etag: `"${hex('md5', kept)}"` })
  for (const [name, kept] of [
    ['fewer bytes', { size: 199_999 }],
    ['more bytes', { size: 200_001 }],
    ['as many bytes, one of them changed', etagOf(changed)],
    ['no body', null],
  ] as const) {
    const { requests, server, store } = await scripted([200], kept)
    await t.throwsAsync(store.put(newId(), bodyOf(bytes)), { instanceOf: BodyMismatch }, name)
    t.is(requests.at(-1)!.method, 'DELETE', name)
    server.close()
  }
  // The ETag of an encrypted body is not its MD5.
  for (const kept of [etagOf(bytes), { size: 200_000, etag: '"d41d8cd98f00b204e9800998ecf8427e-1"' }]) {
    const { server, store } = await scripted([200], kept)
    t.like(await store.put(newId(), bodyOf(bytes)), { size: 200_000, md5: hex('md5', bytes) })
    server.close()
  }
})

/** An endpoint that answers puts with a 503, or hangs up, as soon as their first bytes arrive. */
async function hasty(puts: ('503' | 'hang up' | '200')[], size: number) {
  const server = createServer(async (request, response) => {
    if (request.method === 'HEAD') return response.writeHead(200, { 'content-length': size }).end()
    const put = request.method === 'PUT' ? puts.shift() : '200'
    if (put === '200') {
      for await (const _ of request);
      return response.writeHead(200).end()
    }
    await once(request, 'data')
    request.pause()
    if (put === '503') response.writeHead(503).end()
    setTimeout(() => request.socket.destroy(), 20)
    return response
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { server, store: await openObjectStore({ ...s3.config, endpoint }, { temporaryFolder: temporary }) }
}

/** Open temporary files of this process, which are already unlinked. */
async function openSpools(): Promise<string[]> {
  const fds = await readdir('/proc/self/fd')
  const paths = await Promise.all(fds.map(fd => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return paths.filter(path => path.startsWith(temporary))
}

test.serial(
  'a put ends and leaves no file open, also when the endpoint answers or hangs up in the middle of it',
  async t => {
    const bytes = noise(4_000_000)
    for (const last of ['200', '503', 'hang up'] as const)
      for (const first of ['503', 'hang up'] as const) {
        const { server, store } = await hasty([first, last], bytes.length)
        const put = store.put(newId(), bodyOf(bytes)).then(
          () => 'kept',
          () => 'refused',
        )
        const end = await Promise.race([put, sleep(30_000, 'hangs', { ref: false })])
        t.is(end, last === '200' ? 'kept' : 'refused', `${first}, ${last}`)
        t.deepEqual(await openSpools(), [], `${first}, ${last}`)
        server.close()
      }
  },
)

test.serial(
  'a put that is given up while the endpoint is silent ends then, takes its body back, and leaves no file open',
  async t => {
    const methods: string[] = []
    const given = new AbortController()
    const server = createServer(async (request, response) => {
      methods.push(request.method!)
      for await (const _ of request);
      if (request.method === 'PUT') return given.abort(new Error('given up'))
      return response.writeHead(204).end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const silent = await openObjectStore({ ...s3.config, endpoint }, { temporaryFolder: temporary })
    const put = silent.put(newId(), bodyOf(noise(200_000)), { signal: given.signal }).then(
      () => 'kept',
      () => 'refused',
    )
    t.is(await Promise.race([put, sleep(10_000, 'hangs', { ref: false })]), 'refused')
    t.deepEqual(methods, ['HEAD', 'PUT', 'DELETE'])
    t.deepEqual(await openSpools(), [])
    server.close()
  },
)

test('an endpoint that returns another range than requested is detected', async t => {
  const server = createServer((request, response) => {
    if (request.method === 'HEAD') return response.writeHead(200).end()
    return response.writeHead(200, { 'content-length': 10 }).end('0123456789')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const whole = await openObjectStore({ ...s3.config, endpoint }, { temporaryFolder: temporary })
  await t.throwsAsync(whole.read(newId(), 4, 3), { message: /answered from byte 0 instead of 4/ })
  server.close()
})
