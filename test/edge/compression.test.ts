import { request } from 'node:http'
import { constants, gunzipSync } from 'node:zlib'
import test from 'ava'
import { surfaceTargets } from '../../edge/surfaces.ts'
import { type Origin, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

const text = 'All work and no play makes Jack a dull boy. '.repeat(200)
const kinds: Record<string, Record<string, string>> = {
  '/html': { 'content-type': 'text/html; charset=utf-8', etag: '"strong"' },
  '/json': { 'content-type': 'application/json' },
  '/svg': { 'content-type': 'image/svg+xml' },
  '/png': { 'content-type': 'image/png' },
  '/events': { 'content-type': 'text/event-stream' },
  '/encoded': { 'content-type': 'text/plain', 'content-encoding': 'x-own' },
  '/small': { 'content-type': 'text/html', 'content-length': '1000' },
  '/partial': { 'content-type': 'text/plain', 'content-range': `bytes 0-${text.length - 1}/99999` },
}

let proxy: TestProxy
let origin: Origin

test.before(async () => {
  origin = await startOrigin(async ({ url = '/' }, answer) => {
    if (url === '/ticks') {
      answer.writeHead(200, { 'content-type': 'text/html' })
      answer.write('first;')
      return // the rest never comes
    }
    answer.writeHead(url === '/partial' ? 206 : 200, kinds[url])
    answer.end(url === '/small' ? text.slice(0, 1000) : text)
  })
  const ports = { base: origin.port, blob: origin.port, s3: origin.port, files: origin.port, public: origin.port }
  proxy = await startProxy({}, () => ({ targets: surfaceTargets('127.0.0.1', [ports]) }))
  await proxy.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

interface Got {
  headers: Record<string, string | string[] | undefined>
  bytes: Buffer
}

/** Resolves to the whole answer, or to what has come of it once there is anything of `until`. */
function get(host: string, path: string, more: { accept?: string; port?: number; until?: (bytes: Buffer) => boolean }) {
  const { accept = 'gzip, deflate, br', port = proxy.port, until } = more
  return new Promise<Got>((resolve, reject) => {
    const headers = { host, ...(accept && { 'accept-encoding': accept }) }
    const sent = request({ host: '127.0.0.1', port, path, headers, agent: false }, answer => {
      const chunks: Buffer[] = []
      const finish = () => resolve({ headers: answer.headers, bytes: Buffer.concat(chunks) })
      answer.on('error', reject).on('end', finish)
      answer.on('data', chunk => {
        chunks.push(chunk)
        if (!until?.(Buffer.concat(chunks))) return
        finish()
        sent.destroy()
      })
    })
    sent.on('error', reject).end()
  })
}

test('text of applications from 1 KB on is compressed, with a weak ETag, and varies by what the client accepts', async t => {
  for (const path of ['/html', '/json', '/svg']) {
    const { headers, bytes } = await get('a.localhost', path, { accept: 'gzip' })
    t.like(headers, { 'content-encoding': 'gzip', vary: 'Accept-Encoding' }, path)
    t.true(bytes.length < text.length / 10)
    t.is(gunzipSync(bytes).toString(), text)
  }
  t.is((await get('a.localhost', '/html', { accept: 'gzip' })).headers.etag, 'W/"strong"')
})

test('answers that are small, encoded, partial, event streams or not text are passed on unchanged', async t => {
  for (const path of ['/png', '/events', '/encoded', '/small', '/partial']) {
    const { headers, bytes } = await get('a.localhost', path, {})
    t.is(headers['content-encoding'], kinds[path]!['content-encoding'], path)
    t.is(bytes.toString(), path === '/small' ? text.slice(0, 1000) : text, path)
  }
  const plain = await get('a.localhost', '/html', { accept: '' })
  t.deepEqual([plain.headers['content-encoding'], plain.headers.etag], [undefined, '"strong"'])
  t.is(plain.bytes.toString(), text)
})

test('the platform’s own names never compress, nor do applications with EDGE_COMPRESSION=off', async t => {
  for (const host of ['api.localhost', 'blob.localhost', 's3.localhost', 'files.localhost', 'public.localhost'])
    for (const path of ['/html', '/json'])
      t.is((await get(host, path, { accept: 'gzip' })).headers['content-encoding'], undefined, host)
  const off = await startProxy({ EDGE_COMPRESSION: 'off' })
  t.teardown(off.stop)
  await off.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  t.is((await get('a.localhost', '/html', { port: off.port })).headers['content-encoding'], undefined)
})

test('bytes that an application sends arrive before it sends more', async t => {
  const { headers, bytes } = await get('a.localhost', '/ticks', {
    accept: 'gzip',
    until: received => decompressed(received).includes('first;'),
  })
  t.is(headers['content-encoding'], 'gzip')
  t.is(decompressed(bytes), 'first;')
})

/** The text of a gzip stream that has not ended. */
function decompressed(bytes: Buffer): string {
  return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }).toString()
}
