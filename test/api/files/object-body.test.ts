import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { open, rm, symlink, truncate } from 'node:fs/promises'
import { request, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import test from 'ava'
import { segmentPath } from '../../../activities/objects/meter.ts'
import { testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { heldBodies, type MadeObject, madeObject } from '../../kit/objects/stored-objects.ts'

const api = testApi()

// No process is started with this flag.
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const big = 300_000
const madeSo = async (inline: boolean, sizes: readonly number[]) =>
  madeObject(api(), await api().makeUser(), { bucket: 'public', inline, pieces: sizes.map(size => randomBytes(size)) })
const made = (...sizes: number[]) => madeSo(false, sizes)

const read = ({ id }: MadeObject, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${api().publicUrl}/${id}`, { method, headers })

const stored = [[0], [1], [1000], [65_537], [2_500_000], [10, 20, 30], [big, 1, big], [70_000, 70_000]]
const inRows = [[0], [1], [16_384], [10, 20, 30], [big, 1, 0, 16_384, big], [16_000, big]]
for (const [sizes, inline] of [...stored.map(s => [s, false] as const), ...inRows.map(s => [s, true] as const)])
  test(`a body in segments of ${sizes} bytes${inline ? ', the small ones in their rows,' : ''} comes whole, and in every range over their edges`, async t => {
    const object = await madeSo(inline, sizes)
    const { bytes } = object
    const whole = await read(object)
    t.is(whole.headers.get('content-length'), String(bytes.length))
    t.true(Buffer.from(await whole.arrayBuffer()).equals(bytes))
    const edges = sizes.map((_, n) => sizes.slice(0, n + 1).reduce((sum, size) => sum + size, 0))
    const points = [0, ...edges, ...edges.map(edge => edge - 1), Math.floor(bytes.length / 2)]
    for (const from of points.filter(point => point >= 0 && point < bytes.length))
      for (const to of points.filter(point => point >= from)) {
        const part = await read(object, { range: `bytes=${from}-${to}` })
        const last = Math.min(to, bytes.length - 1)
        t.is(part.status, 206)
        t.is(part.headers.get('content-range'), `bytes ${from}-${last}/${bytes.length}`)
        t.is(part.headers.get('content-length'), String(last - from + 1))
        t.true(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(from, last + 1)), `${from}-${last}`)
      }
    const head = await read(object, {}, 'HEAD')
    t.is(head.headers.get('content-length'), String(bytes.length))
    t.is(await head.text(), '')
    const beyond = await read(object, { range: `bytes=${bytes.length}-` })
    t.deepEqual([beyond.status, beyond.headers.get('content-range')], [416, `bytes */${bytes.length}`])
  })

test('conditions are answered without a body, and keep the connection usable', async t => {
  const object = await made(big)
  const { etag, created_at } = object.row
  const known = await read(object, { 'if-none-match': `"${etag}"` })
  t.deepEqual([known.status, await known.text(), known.headers.get('etag')], [304, '', `"${etag}"`])
  t.is(known.headers.get('content-length'), null)
  t.is(known.headers.get('transfer-encoding'), null)
  t.is((await read(object, { 'if-modified-since': created_at.toUTCString() })).status, 304)
  const other = await read(object, { 'if-match': '"another"' })
  t.deepEqual([other.status, other.headers.get('content-type')], [412, 'text/plain; charset=utf-8'])
  t.is((await read(object, { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' })).status, 412)
  const resumed = await read(object, { range: 'bytes=5-9', 'if-range': `"${etag}"` })
  t.deepEqual(Buffer.from(await resumed.arrayBuffer()), object.bytes.subarray(5, 10))
  const replaced = await read(object, { range: 'bytes=5-9', 'if-range': '"another"' })
  t.deepEqual([replaced.status, (await replaced.arrayBuffer()).byteLength], [200, big])
})

/** One byte of a stored segment is another one now. */
async function damage(segmentId: string, at: number): Promise<void> {
  const file = await open(api().store.pathOf(segmentPath(segmentId)), 'r+')
  const byte = Buffer.alloc(1)
  await file.read(byte, 0, 1, at)
  await file.write(Buffer.of(byte[0]! ^ 1), 0, 1, at)
  await file.close()
}

/** What a client has of an answer before its connection ends, and whether it ended as it should. */
async function received(object: MadeObject): Promise<{ status: number; bytes: number; whole: boolean }> {
  const asked = request(`${api().publicUrl}/${object.id}`)
  asked.end()
  const [answer] = await once(asked, 'response')
  let bytes = 0
  answer.on('data', (piece: Buffer) => {
    bytes += piece.length
  })
  answer.on('error', () => {})
  await new Promise(resolve => answer.once('close', resolve))
  return { status: answer.statusCode, bytes, whole: answer.complete }
}

for (const [name, sizes, segment, at] of [
  ['its last byte', [2_500_000], 0, 2_499_999],
  ['its first byte', [2_500_000], 0, 0],
  ['the second of its segments', [big, big, big], 1, 7],
] as const)
  test(`a body with damage at ${name} never looks whole`, async t => {
    const object = await made(...sizes)
    await damage(object.segmentIds[segment]!, at)
    const seen = await received(object)
    t.like(seen, { status: 200, whole: false })
    t.true(seen.bytes < object.bytes.length)
  })

test('a small body with damage, a cut one and one that is missing are errors before anything is sent', async t => {
  const damaged = await made(1000)
  await damage(damaged.segmentIds[0]!, 999)
  const medium = await made(big)
  await damage(medium.segmentIds[0]!, big - 1)
  const cut = await made(1000)
  await truncate(api().store.pathOf(segmentPath(cut.segmentIds[0]!)), 999)
  const missing = await made(big)
  await api().store.delete(missing.segmentIds[0]!)
  for (const object of [damaged, medium, cut, missing]) {
    const answer = await read(object)
    t.is(answer.status, 500)
    t.notRegex(await answer.text(), /segment|ENOENT|\//)
    t.is(answer.headers.get('etag'), null)
  }
})

test('a small body with damage in its row is an error before anything is sent', async t => {
  const object = await madeSo(true, [1000])
  await api()
    .db('segments')
    .where({ id: object.segmentIds[0] })
    .update({ bytes: randomBytes(1000) })
  t.is((await read(object)).status, 500)
})

test('a store that does not answer is a refusal that says when to come again', async t => {
  for (const object of [await made(1000), await made(big)]) {
    const path = api().store.pathOf(segmentPath(object.segmentIds[0]!))
    await rm(path)
    await symlink(path, path) // Opening it fails for every user, root too.
    const answer = await read(object)
    t.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '5'])
    t.is(await answer.text(), 'The storage does not respond. Try again in a moment.\n')
  }
})

test('a large body that was cut never looks whole', async t => {
  const object = await made(2_500_000)
  await truncate(api().store.pathOf(segmentPath(object.segmentIds[0]!)), 2_000_000)
  const { bytes, whole } = await received(object)
  t.false(whole)
  t.true(bytes < object.bytes.length)
})

test.serial(
  'a reader that takes nothing holds up neither memory nor others, and gets all once it reads on',
  async t => {
    const object = await made(40_000_000)
    const socket = connect(Number(new URL(api().publicUrl).port), '127.0.0.1')
    socket.pause()
    socket.write(`GET /${object.id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    await once(socket, 'connect')
    collectGarbage()
    const before = process.memoryUsage().arrayBuffers
    for (let n = 0; n < 20; n++) t.is((await read(object, { range: 'bytes=0-9' })).status, 206)
    collectGarbage()
    // Of the 40 MB at most what is on loan to the answer is held.
    t.true(process.memoryUsage().arrayBuffers - before < 5_000_000)
    let bytes = 0
    socket.on('data', piece => {
      bytes += piece.length
    })
    socket.resume()
    await once(socket, 'close')
    t.true(bytes > object.bytes.length)
  },
)

test.serial('answers that wait for each other come whole, and hold no body open before their turn', async t => {
  const object = await made(20_000_000)
  const ask = (last: string) => `GET /${object.id} HTTP/1.1\r\nHost: x\r\n${last}\r\n`
  const opened = async () => {
    const socket = connect(Number(new URL(api().publicUrl).port), '127.0.0.1')
    socket.pause()
    socket.write(ask('').repeat(4) + ask('Connection: close\r\n'))
    await comesTrue(async () => (await heldBodies(api())) > 0)
    await sleep(200)
    t.is(await heldBodies(api()), 1)
    return socket
  }
  const reader = await opened()
  let bytes = 0
  reader.on('data', piece => {
    bytes += piece.length
  })
  reader.resume()
  await once(reader, 'close')
  t.true(bytes > 5 * object.bytes.length)
  t.is(await heldBodies(api()), 0)
  const left = await opened()
  left.destroy()
  await comesTrue(async () => (await heldBodies(api())) === 0)
  t.pass()
})

test.serial(
  'readers that take nothing are cut at the second of two looks, 15 s apart, and nobody waits for them',
  async t => {
    const object = await made(40_000_000)
    // Their clock runs ten times as fast here.
    const asked = new Set<number>()
    const { setTimeout: waitFor } = ServerResponse.prototype
    t.teardown(() => {
      ServerResponse.prototype.setTimeout = waitFor
    })
    ServerResponse.prototype.setTimeout = function (ms, done) {
      asked.add(ms)
      return waitFor.call(this, ms / 10, done)
    }
    const sockets = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const socket = connect(Number(new URL(api().publicUrl).port), '127.0.0.1')
        socket.on('error', () => {}).pause()
        await once(socket, 'connect')
        socket.write(`GET /${object.id} HTTP/1.1\r\nHost: x\r\n\r\n`)
        return socket
      }),
    )
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
    })
    await comesTrue(async () => (await heldBodies(api())) === 50)
    await comesTrue(async () => {
      t.is((await read(object, { range: 'bytes=0-9' })).status, 206)
      return (await heldBodies(api())) === 0
    })
    t.deepEqual([...asked], [15_000])
  },
)
