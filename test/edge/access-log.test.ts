import { once } from 'node:events'
import { access, appendFile, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { surfaceTargets } from '../../edge/surfaces.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, named, startOrigin } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

const appId = '0123456789abcdef01234567'

test('every request is one JSON line, whatever its content', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  const origin = await startOrigin((_, answer) => {
    answer.setHeader('content-type', 'text/plain')
    answer.statusCode = 201
    answer.end('twelve bytes')
  })
  t.teardown(origin.stop)
  await proxy.edge.setRoute({ host: 'a.localhost', appId, address: '127.0.0.1', port: origin.port })
  const headers = { 'user-agent': 'say "hi"\\', referer: 'http://from/' }
  await ask(proxy.port, 'a.localhost', { method: 'POST', path: '/p/a?q=1&r=%22', headers, body: 'x' })
  await ask(proxy.port, 'nobody.localhost')
  // Two workers of the proxy write their lines on their own.
  const lines = await proxy.accessLog(2)
  const [first, second] = ['a.localhost', 'nobody.localhost'].map(host => lines.find(line => line.host === host))
  t.like(first, {
    host: 'a.localhost',
    app: appId,
    method: 'POST',
    path: '/p/a',
    query: 'q=1&r=%22',
    status: 201,
    upstream_status: '201',
    client: '127.0.0.1',
    referer: 'http://from/',
    agent: 'say "hi"\\',
    protocol: 'HTTP/1.1',
    content_type: 'text/plain',
  })
  t.regex(String(first?.time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/)
  t.true(Math.abs(Number(first?.at) * 1000 - Date.now()) < 60_000)
  t.true(Number(first?.bytes) > 12 && Number(first?.seconds) >= 0 && Number(first?.upstream_seconds) >= 0)
  t.regex(String(first?.request_id), /^[0-9a-f]{16}-\d+-\d+$/)
  t.not(first?.request_id, second?.request_id)
  t.like(second, { host: 'nobody.localhost', app: '', status: 404, upstream_status: '' })
})

test('a request that its client gave up in the middle of its headers has a whole line', async t => {
  const proxy = await startProxy()
  t.teardown(proxy.stop)
  const socket = connect(proxy.port, '127.0.0.1').end('GET /half HTTP/1.1\r\nHost: a.loc')
  await once(socket.resume(), 'close')
  const [line] = await proxy.accessLog(1)
  t.like(line, { path: '/half', app: '', cache: 'dynamic', edge_ms: null, origin_ms: null, mitigated: true })
})

test('a line says how an application was reached, how long that took, and whether the proxy itself refused', async t => {
  const settings = {
    EDGE_NAME: 'edge-1',
    EDGE_APP_BODY_MB: '1',
    EDGE_TRUSTED_PROXIES: '127.0.0.1',
    ALLOW_PLAIN_HTTP: 'on',
  }
  const proxy = await startProxy(settings)
  t.teardown(proxy.stop)
  const origin = await startOrigin(async (incoming, answer) => {
    if (incoming.url === '/slow') await sleep(1050)
    if (incoming.url === '/busy') answer.statusCode = 429
    answer.write('first')
    await sleep(incoming.url === '/streams' ? 1500 : 0)
    answer.end()
  })
  t.teardown(origin.stop)
  const host = 'a.localhost'
  await proxy.edge.setRoute({ host, appId, address: '127.0.0.1', port: origin.port })
  await ask(proxy.port, host, { path: '/quick', headers: { 'x-forwarded-proto': 'https' } })
  for (const path of ['/slow', '/busy', '/streams']) await ask(proxy.port, host, { path })
  await ask(proxy.port, 'nobody.localhost', { path: '/missing' })
  const large = { 'content-length': String(1024 ** 2 + 1) }
  await ask(proxy.port, host, { method: 'POST', path: '/large', headers: large }).catch(() => {})
  const socket = connect(proxy.port, '127.0.0.1').end(`GET /odd HTTP/1.1\nHost: ${host}\n\n`)
  await once(socket.resume(), 'close')
  const lines = await proxy.accessLog(7)
  const lineOf = (path: string) => lines.find(line => line.path === path) ?? {}
  const plain = { scheme: 'http', cache: 'dynamic', tls: '', colo: 'edge-1', mitigated: false }
  t.like(lineOf('/quick'), { ...plain, scheme: 'https' })
  for (const path of ['/slow', '/busy', '/streams']) t.like(lineOf(path), plain, path)
  const timesOf = (path: string) => [lineOf(path).edge_ms, lineOf(path).origin_ms] as number[]
  for (const path of ['/quick', '/slow', '/busy', '/streams'])
    for (const time of timesOf(path)) t.true(Number.isInteger(time) && time >= 0, `${path}: ${time}`)
  t.true(timesOf('/slow').every(time => time >= 1000))
  t.true(
    Number(lineOf('/streams').seconds) * 1000 - Math.max(...timesOf('/streams')) >= 1000,
    'until the first byte, not the last',
  )
  t.like(lineOf('/missing'), { ...plain, status: 404, origin_ms: null })
  t.like(lineOf('/large'), { ...plain, app: appId, status: 413, origin_ms: null, mitigated: true })
  t.like(lineOf('/odd'), { ...plain, app: appId, status: 400, origin_ms: null, mitigated: true })
})

test("lines of the platform's own surfaces hold no token", async t => {
  const api = await named('api')
  t.teardown(api.stop)
  const ports = { base: api.port, blob: api.port, s3: api.port, files: api.port, public: api.port }
  const proxy = await startProxy({}, () => ({ targets: surfaceTargets('127.0.0.1', [ports]) }))
  t.teardown(proxy.stop)
  await ask(proxy.port, 'files.localhost', { path: '/d/SECRET?upload=SECRET', headers: { referer: 'http://x/SECRET' } })
  const [line] = await proxy.accessLog(1)
  t.like(line, { host: 'files.localhost', path: '/d', query: '', status: 200 })
  t.false(JSON.stringify(line).includes('SECRET'))
})

test('files older than the limit are removed, and only those of the log', async t => {
  const proxy = await startProxy({ EDGE_LOG_HOURS: '3' })
  t.teardown(proxy.stop)
  const folder = join(proxy.config.dataDir, 'proxy/access')
  const nameOf = (hoursAgo: number) =>
    `access-${new Date(Date.now() - hoursAgo * 3_600_000).toISOString().slice(0, 13)}.log`
  for (const name of [nameOf(1), nameOf(4), nameOf(24 * 300), 'notes.log']) await writeFile(join(folder, name), '{}\n')
  await proxy.kill('SIGQUIT')
  await proxy.start()
  await comesTrue(async () => (await readdir(folder)).length <= 2)
  t.deepEqual((await readdir(folder)).sort(), [nameOf(1), 'notes.log'].sort())
})

test('beyond the size limit the oldest file is removed first; an hour that reaches it alone is no longer written', async t => {
  const proxy = await startProxy({ EDGE_LOG_MB: '1' })
  t.teardown(proxy.stop)
  const folder = join(proxy.config.dataDir, 'proxy/access')
  const fileOf = (hoursAgo: number) =>
    join(folder, `access-${new Date(Date.now() - hoursAgo * 3_600_000).toISOString().slice(0, 13)}.log`)
  await writeFile(fileOf(2), Buffer.alloc(600_000))
  await writeFile(fileOf(1), Buffer.alloc(300_000))
  await writeFile(fileOf(0), Buffer.alloc(400_000))
  await proxy.kill('SIGQUIT')
  await proxy.start()
  await comesTrue(async () => (await readdir(folder)).length <= 2)
  await t.throwsAsync(access(fileOf(2)))
  await t.notThrowsAsync(access(fileOf(1)))
  await proxy.kill('SIGQUIT')
  await writeFile(fileOf(0), Buffer.alloc(1_100_000))
  await proxy.start()
  await sleep(200)
  t.is((await ask(proxy.port, 'nobody.localhost')).status, 404)
  await sleep(200)
  const { size } = await stat(fileOf(0))
  t.is(size, 1_100_000)
})

test('a flood of one application, or of unknown hosts, leaves half of an hour to the lines of others', async t => {
  const proxy = await startProxy({ EDGE_LOG_MB: '1' })
  t.teardown(proxy.stop)
  const origin = await startOrigin(({ headers }, answer) => {
    if (headers.host === 'wide.localhost') answer.setHeader('content-type', `text/${'"'.repeat(2000)}`)
    answer.end()
  })
  t.teardown(origin.stop)
  const [first, second, third] = ['1', '2', '3'].map(digit => appId.replace('0', digit)) as [string, string, string]
  const apps = { 'loud.localhost': first, 'wide.localhost': second, 'calm.localhost': third }
  await ask(proxy.port, 'nobody.localhost')
  await proxy.accessLog(1)
  const hour = new Date().toISOString().slice(0, 13)
  const file = join(proxy.config.dataDir, `proxy/access/access-${hour}.log`)
  await appendFile(file, `${' '.repeat(600_000)}\n`)
  for (const [host, id] of Object.entries(apps))
    await proxy.edge.setRoute({ host, appId: id, address: '127.0.0.1', port: origin.port })
  await sleep(1500) // it looks at the file every second
  const path = `/${'p'.repeat(4000)}`
  for (let n = 0; n < 40; n++)
    for (const host of ['loud.localhost', 'wide.localhost', 'nobody.localhost'])
      await ask(proxy.port, host, { path: host === 'wide.localhost' ? '/' : path })
  await ask(proxy.port, 'calm.localhost', { path: '/last' })
  const readLines = async () =>
    (await readFile(file, 'utf8'))
      .split('\n')
      .filter(line => line.trim())
      .map(line => JSON.parse(line))
  await comesTrue(async () => (await readLines()).some(({ path }) => path === '/last'))
  for (const host of ['loud.localhost', 'wide.localhost', 'nobody.localhost']) {
    const count = (await readLines()).filter(line => line.host === host).length
    t.true(count >= 2 && count <= 9, `${host}: ${count} lines of 4 KB, of a share of 32 KB`)
  }
})

test('nothing is written beyond the limit, also of requests that nginx refuses itself', async t => {
  const port = await unusedPort()
  const ports = { base: port, blob: port, s3: port, files: port, public: port }
  const settings = { EDGE_LOG_MB: '1', EDGE_APP_BODY_MB: '1', EDGE_CONNECTIONS_PER_ADDRESS: '2' }
  const proxy = await startProxy(settings, () => ({ targets: surfaceTargets('127.0.0.1', [ports]) }))
  t.teardown(proxy.stop)
  const silent = await startOrigin(() => {})
  t.teardown(silent.stop)
  await proxy.edge.setRoute({ host: 'a.localhost', appId, address: '127.0.0.1', port: silent.port })
  const openSocket = (text: string) => {
    const socket = connect(proxy.port, '127.0.0.1').on('error', () => {})
    t.teardown(() => socket.destroy())
    socket.write(text)
    return socket
  }
  /** The status of the answer; nothing for a connection that is closed without one. */
  const sendText = async (text: string) => {
    const socket = openSocket(text)
    if (!text.endsWith('\r\n\r\n')) socket.end()
    const answer = await Promise.race([once(socket, 'data').then(String), once(socket, 'close').then(() => '')])
    socket.destroy()
    return answer.split(' ')[1] ?? ''
  }
  const headOf = (host: string, path = '/', more = '') => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`
  const longText = 'x'.repeat(9000)
  const causeRefusals = async () => {
    for (const host of ['a.localhost', 'files.localhost']) {
      t.is(await sendText(headOf(host, '/', 'Content-Length: x\r\n')), '400')
      t.is(await sendText(headOf(host, '/', `X: ${longText}\r\n`)), '431')
    }
    t.is(await sendText(headOf('a.localhost', `/${longText}`)), '400')
    t.is(await sendText('no request at all\r\n\r\n'), '400')
    t.is(await sendText('GET / HTTP/1.1\r\nHost: a.local'), '', 'it ended before its headers did')
    t.is(await sendText(headOf('a.localhost', '/', `Content-Length: ${2 * 1024 ** 2}\r\n`)), '413')
    for (const host of ['files.localhost', 'a.localhost'])
      await comesTrue(async () => {
        // One that comes while the requests before are still open is refused itself, and holds nothing.
        openSocket(headOf('a.localhost'))
        return (await sendText(headOf(host))) === '429'
      })
  }
  await causeRefusals()
  await comesTrue(async () => new Set((await proxy.accessLog(9)).map(({ status }) => status)).size >= 4)
  await proxy.kill('SIGTERM')
  const file = join(proxy.config.dataDir, `proxy/access/access-${new Date().toISOString().slice(0, 13)}.log`)
  await writeFile(file, Buffer.alloc(1_100_000))
  await proxy.start()
  await sleep(200)
  await causeRefusals()
  await proxy.kill('SIGTERM')
  const { size } = await stat(file)
  t.is(size, 1_100_000)
})
