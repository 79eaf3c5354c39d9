import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import test from 'ava'
import type { SurfaceTargets } from '../../edge/surfaces.ts'
import { testApi } from '../kit/actors/api.ts'
import { madeObject } from '../kit/objects/stored-objects.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

const api = testApi()
let proxy: TestProxy | undefined
test.after.always(() => proxy?.stop())

/** The proxy before this file's surfaces. */
async function edge(): Promise<TestProxy> {
  const { url, publicUrl, filesUrl, blobUrl } = api()
  const at = (address: string) => [new URL(address).host]
  const targets: SurfaceTargets = {
    api: at(url),
    blob: at(blobUrl),
    s3: at(url),
    files: at(filesUrl),
    public: at(publicUrl),
  }
  proxy ??= await startProxy({}, () => ({ targets }))
  return proxy
}

async function through(surface: string, path: string, headers: Record<string, string> = {}, method = 'GET') {
  const { port } = await edge()
  const sent = request({ port, host: '127.0.0.1', path, method, headers: { host: `${surface}.localhost`, ...headers } })
  sent.end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const pieces: Buffer[] = []
  for await (const piece of answer) pieces.push(piece)
  return { status: answer.statusCode, headers: answer.headers, bytes: Buffer.concat(pieces) }
}

test.serial('files pass the proxy whole, in ranges, with HEAD and with conditions', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, {
    bucket: 'public',
    key: 'a//b %2f ü/../c.bin',
    pieces: [randomBytes(9_000_000), randomBytes(9_000_000)],
  })
  const path = `/pub/${ana.id}/a//b%20%252f%20%C3%BC/../c.bin`
  const whole = await through('public', path)
  t.is(whole.status, 200)
  t.true(whole.bytes.equals(made.bytes))
  const part = await through('public', path, { range: 'bytes=8999999-9000000' })
  t.deepEqual([part.status, part.headers['content-range']], [206, 'bytes 8999999-9000000/18000000'])
  t.deepEqual(part.bytes, made.bytes.subarray(8_999_999, 9_000_001))
  t.is((await through('public', path, { range: 'bytes=18000000-' })).status, 416)
  const head = await through('public', path, {}, 'HEAD')
  t.deepEqual([head.status, head.headers['content-length'], head.bytes.length], [200, '18000000', 0])
  const known = await through('public', path, { 'if-none-match': whole.headers.etag ?? '' })
  t.deepEqual([known.status, known.headers.etag, known.bytes.length], [304, `"${made.row.etag}"`, 0])
  t.is((await through('public', '/pub/status')).bytes.toString(), 'OK')
})

test.serial('links and shares pass the proxy, with their cookie and their refusals', async t => {
  const ana = await api().makeUser()
  const { id: object, bytes } = await madeObject(api(), ana)
  const { url } = (await api().blobAs(ana).get(`/v1/objects/download?object=${object}&redirect=false`)).body.response
  t.deepEqual((await through('files', new URL(url).pathname)).bytes, bytes)
  const asked = JSON.stringify({ object, max_downloads: 1 })
  const share = new URL((await api().blobAs(ana).post('/v1/shares', asked)).body.response.url).pathname
  const started = await through('files', share, { range: 'bytes=0-9' })
  t.is(started.status, 206)
  const cookie = started.headers['set-cookie']?.[0]?.split(';')[0] ?? ''
  t.deepEqual((await through('files', share, { range: 'bytes=10-', cookie })).bytes, bytes.subarray(10))
  const spent = await through('files', share)
  t.deepEqual([spent.status, spent.headers['content-type']], [410, 'text/plain; charset=utf-8'])
})
