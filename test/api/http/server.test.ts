import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import test from 'ava'
import { surfaces } from '../../../api/app.ts'
import { hardenedServer } from '../../../api/http/server.ts'
import { listening, testApi } from '../../kit/actors/api.ts'
import { madeObject } from '../../kit/objects/stored-objects.ts'
import { ask } from '../../kit/servers/origin.ts'

const api = testApi()

interface Heard {
  text: string
  ms: number
}

/** Sends bytes as they are; resolves when the other side closes, or after `waitMs`. */
function raw(bytes: string | Buffer, { waitMs = 30_000, until = '\0' } = {}): Promise<Heard> {
  const startedAt = performance.now()
  return new Promise(resolve => {
    let text = ''
    const socket: Socket = connect(Number(new URL(api().url).port), '127.0.0.1', () => socket.write(bytes))
    const end = () => resolve({ text, ms: performance.now() - startedAt })
    const timer = setTimeout(() => socket.destroy(), waitMs)
    socket.on('data', chunk => {
      text += chunk
      if (text.includes(until)) socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(timer)
      end()
    })
  })
}

test('the connections of one address, or one IPv6 network, are limited', async t => {
  const limits = { connections: 100, connectionsPerAddress: 2, unlimited: (address: string) => address === '::1' }
  const server = hardenedServer(() => {}, limits)
  const from = (remoteAddress: string) => {
    const socket = Object.assign(new PassThrough(), { remoteAddress })
    server.emit('connection', socket)
    return socket
  }
  const cut = (...addresses: string[]) => addresses.map(from).map(socket => socket.destroyed)
  t.deepEqual(cut('2001:db8:1:2::1', '2001:db8:1:2:f::2', '2001:db8:1:2::1'), [false, false, true])
  t.deepEqual(cut('2001:db8:1:3::1', '203.0.113.1', '::ffff:203.0.113.1', '203.0.113.1'), [false, false, false, true])
  t.deepEqual(cut('::1', '::1', '::1'), [false, false, false])
})

test('smuggled and malformed requests are 400 and closed', async t => {
  const cases = {
    'length and chunks':
      'POST /v2/apps HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'two lengths': 'POST /v2/apps HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd',
    'unknown encoding': 'POST /v2/apps HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    'folded header': 'GET /v2/users/me HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n',
    'space before the colon': 'GET /v2/users/me HTTP/1.1\r\nHost : x\r\n\r\n',
    'bare line feeds': 'GET /v2/users/me HTTP/1.1\nHost: x\n\n',
    'no host': 'GET /v2/users/me HTTP/1.1\r\n\r\n',
    garbage: '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
  }
  for (const [name, bytes] of Object.entries(cases)) {
    const { text, ms } = await raw(bytes)
    t.regex(text, /^HTTP\/1\.1 400 /, name)
    t.regex(text, /\r\nX-Request-Id: [0-9a-f-]{36}\r\n/, name)
    t.true(ms < 30_000, `${name} is closed by us`)
  }
  t.is((await api().as(undefined).get('/v2/users/me')).status, 401)
})

test('pipelined requests are answered in order, up to 32 on a connection', async t => {
  const one = 'GET /v2/users/me HTTP/1.1\r\nHost: x\r\n\r\n'
  const last = 'GET /v2/users/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
  const answers = ({ text }: Heard) => text.split('HTTP/1.1 401 ').length - 1
  t.is(answers(await raw(one.repeat(31) + last)), 32)
  t.true(answers(await raw(one.repeat(1000))) < 33)
})

test('headers over 16 KB are 431', async t => {
  const { text } = await raw(`GET /v2/users/me HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(20_000)}\r\n\r\n`)
  t.regex(text, /^HTTP\/1\.1 431 /)
  t.regex(text, /\r\nX-Request-Id: [0-9a-f-]{36}\r\n/)
})

test('half a header for 10 s ends the connection', async t => {
  const { ms } = await raw('GET /v2/users/me HTTP/1.1\r\nHost: x\r\nA: ', { waitMs: 60_000 })
  t.true(ms > 8000 && ms < 20_000, String(ms))
})

test('a client whose large body is refused can still read why', async t => {
  const head =
    'POST /v2/apps HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 20000000\r\n\r\n'
  const { text } = await raw(Buffer.concat([Buffer.from(head), Buffer.alloc(20_000_000)]), { until: 'ACCESS_DENIED' })
  t.regex(text, /^HTTP\/1\.1 401 /)
})

test('a client that expects 100-continue is refused before it sends its body', async t => {
  const ana = await api().makeUser()
  const head = (key: string) =>
    `POST /v2/apps HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nExpect: 100-continue\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n`
  const refused = await raw(head('x'.repeat(70)), { until: '}' })
  t.regex(refused.text, /^HTTP\/1\.1 401 /)
  const invited = await raw(head(ana.key), { until: '\r\n\r\n' })
  t.regex(invited.text, /^HTTP\/1\.1 100 Continue/)
})

test('a refused body that never arrives ends the connection', async t => {
  const { text, ms } = await raw('POST /v2/apps HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc', {
    waitMs: 60_000,
  })
  t.regex(text, /^HTTP\/1\.1 401 /)
  t.true(ms > 3000 && ms < 60_000, String(ms))
})

test('an upload that stalls is refused and stores nothing', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeApp(ana)
  const part = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\nzzz'
  const reported = await Promise.all(
    ['/v2/apps', `/v2/apps/${id}/commit`].map(path => {
      const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${ana.key}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n\r\n`
      return raw(head + part, { waitMs: 60_000, until: '}' })
    }),
  )
  for (const { text } of reported) t.regex(text, /^HTTP\/1\.1 400 [\s\S]*"code":"UPLOAD_ABORTED"/)
  t.is((await api().db('apps').where({ owner_id: ana.id })).length, 1)
  t.is((await api().db('operations').where({ target_id: id, kind: 'deploy' })).length, 0)
})

test('pipelined requests are answered in order', async t => {
  const { text } = await raw(
    'GET /v2/nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /v2/users/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  )
  t.regex(text, /404[\s\S]*ROUTE_NOT_FOUND[\s\S]*401[\s\S]*ACCESS_DENIED/)
})

test('the public surface answers OK, never cached', async t => {
  const answer = await fetch(`${api().publicUrl}/pub/status`)
  t.is(answer.status, 200)
  t.is(await answer.text(), 'OK')
  t.is(answer.headers.get('cache-control'), 'no-store')
  t.is((await fetch(`${api().publicUrl}/pub/status`, { method: 'HEAD' })).status, 200)
  const other = await fetch(`${api().publicUrl}/other`)
  t.deepEqual([other.status, await other.text()], [404, 'Not found\n'])
})

test('answers of the management and blob API are not cacheable, because they contain keys, variables and links', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const headers = { authorization: ana.key }
  const { url, blobUrl } = api()
  const { id: deploymentId } = await api().db('deployments').where({ app_id: app.id }).first()
  const answers = [
    [200, `${url}/v2/apps/${app.id}/deployments/${deploymentId}/logs`],
    [200, `${url}/v2/users/me`],
    [200, `${url}/v2/apps/${app.id}/envs`],
    [404, `${url}/v2/nothing`],
    [200, `${blobUrl}/v1/objects`],
    [404, `${blobUrl}/v1/nothing`],
  ] as const
  for (const [status, address] of answers) {
    const answer = await fetch(address, { headers })
    await answer.text()
    t.deepEqual([answer.status, answer.headers.get('cache-control')], [status, 'no-store'], address)
  }
  const document = await fetch(`${url}/v2/openapi.json`)
  await document.text()
  t.is(document.headers.get('cache-control'), 'public, max-age=300', 'and what is the same for everyone by everybody')
})

test('every surface answers unknown paths in its own format', async t => {
  const all = surfaces(api().services)
  const answerOf = async (name: 'blob' | 's3' | 'files') => {
    const server = createServer(all[name].callback())
    const answer = await fetch(`${await listening(server)}/v1/nothing`)
    const text = await answer.text()
    server.close()
    return [answer.status, answer.headers.get('content-type'), text] as const
  }
  const [status, , blob] = await answerOf('blob')
  t.deepEqual([status, JSON.parse(blob).code], [404, 'NOT_FOUND'])
  t.regex((await answerOf('s3'))[2], /<Code>AccessDenied<\/Code>/)
  t.regex((await answerOf('files'))[1] ?? '', /^text\/plain/)
})

test('every surface refuses TRACE and echoes nothing', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  const sharing = await api()
    .blobAs(ana)
    .post('/v1/shares', JSON.stringify({ object: made.id }))
  const all = surfaces(api().services)
  const trace = async (name: keyof typeof all, path: string) => {
    const server = createServer(all[name].callback())
    const port = Number(new URL(await listening(server)).port)
    const headers = { authorization: ana.key, cookie: `share=${'secret'.repeat(9)}`, 'max-forwards': '0' }
    const { status, body, headers: got } = await ask(port, 'x', { method: 'TRACE', path, headers })
    server.close()
    t.false(
      [ana.key, 'secret'].some(sent => (body + JSON.stringify(got)).includes(sent)),
      name,
    )
    return [status, /"code":"(\w+)"|<Code>(\w+)/.exec(body)?.slice(1).find(Boolean) ?? body]
  }
  t.deepEqual(await trace('base', '/v2/users/me'), [404, 'ROUTE_NOT_FOUND'])
  t.deepEqual(await trace('blob', '/v1/objects'), [404, 'NOT_FOUND'])
  t.deepEqual(await trace('s3', '/'), [400, 'InvalidRequest'])
  t.deepEqual(await trace('files', new URL(sharing.body.response.url).pathname), [404, 'Not found\n'])
  t.deepEqual(await trace('public', '/pub/status'), [404, 'Not found\n'])
})
