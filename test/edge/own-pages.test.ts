import { connect } from 'node:net'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { edgeConfig } from '../../edge/edge-config.ts'
import { surfaceTargets } from '../../edge/surfaces.ts'
import { parseConfig } from '../../policy/config.ts'
import { type Origin, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

let proxy: TestProxy
let origin: Origin

test.before(async () => {
  origin = await startOrigin((incoming, answer) => {
    if (incoming.url === '/dies') return void incoming.socket.destroy()
    if (incoming.url === '/long')
      answer.setHeader('X-Long', 'y'.repeat(15_000)).setHeader('X-Longer', 'y'.repeat(15_000))
    answer.setHeader('Server', 'nginx/1.2.3').end('reached')
  })
  const all = [`127.0.0.1:${origin.port}`]
  const targets = { api: all, blob: all, s3: all, files: all, public: all }
  proxy = await startProxy({ EDGE_APP_BODY_MB: '1' }, () => ({ targets }))
  const away = await unusedPort()
  for (const [host, port] of Object.entries({ 'a.localhost': origin.port, 'away.localhost': away }))
    await proxy.edge.setRoute({ host, appId: `a${port}`, address: '127.0.0.1', port })
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

/** Everything that comes back until the proxy closes. */
async function raw(bytes: string): Promise<string> {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  socket.on('error', () => {})
  socket.write(bytes, 'latin1')
  await new Promise(resolve => socket.once('close', resolve))
  return text
}

type Look = 'json' | 'text' | 'xml' | 'page'
const looks: Record<Look, RegExp> = {
  json: /^content-type: application\/json; charset=utf-8\r\n[\s\S]*\{"status":"error","code":"[A-Z_]+","message":"[^"]+"\}/im,
  text: /^content-type: text\/plain; charset=utf-8\r\n[\s\S]*\r\n\r\n[^<]+\n/im,
  xml: /^content-type: application\/xml\r\n[\s\S]*<Error><Code>\w+<\/Code><Message>/im,
  page: /^content-type: text\/html; charset=utf-8\r\n[\s\S]*<!doctype html>[\s\S]*<h1>/im,
}
const surfaces: Record<string, Look> = {
  'api.localhost': 'json',
  'blob.localhost': 'json',
  's3.localhost': 'xml',
  'files.localhost': 'text',
  'public.localhost': 'text',
}
const applications = { 'a.localhost': 'page', 'away.localhost': 'page', 'nobody.localhost': 'page' } as const

const head = (line: string, host: string, more = '') =>
  `${line} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}\r\n`
const large = `X: ${'y'.repeat(4000)}\r\n`.repeat(6)

/** What the proxy says itself, by a request for a host: its status, where that one has it. */
const refusals: Record<string, [request: (host: string) => string, status: (look: Look) => number]> = {
  'headers over 16 KB': [host => head('GET /', host, large), look => (look === 'xml' ? 400 : 431)],
  'one header over 8 KB': [
    host => head('GET /', host, `X: ${'y'.repeat(9000)}\r\n`),
    look => (look === 'xml' ? 400 : 431),
  ],
  'a length that is none': [host => head('POST /', host, 'Content-Length: x\r\n'), () => 400],
  'an unknown transfer coding': [host => head('POST /', host, 'Transfer-Encoding: gzip\r\n'), () => 400],
}

for (const [name, [request, status]] of Object.entries(refusals))
  for (const [host, look] of Object.entries({ ...surfaces, ...applications }))
    test(`${name}: ${host} answers in its own format`, async t => {
      const text = await raw(request(host))
      t.regex(text, new RegExp(`^HTTP/1\\.1 ${status(look)} `))
      t.regex(text, looks[look])
      t.notRegex(text, /nginx/i)
      t.regex(text, /^X-Request-Id: \w+/im)
      t.regex(text, /^Cache-Control: no-store/im)
    })

test('an unreadable request line has no host, and gets the page', async t => {
  for (const line of [
    `GET /${'y'.repeat(9000)} HTTP/1.1`,
    'GET / HTTP/2.0',
    'GET /a%zz HTTP/1.1',
    'PRI * HTTP/2.0',
    '\x16\x03\x01',
  ]) {
    const text = await raw(`${line}\r\nHost: api.localhost\r\n\r\n`)
    t.regex(text, /^HTTP\/1\.1 400 /, line)
    t.regex(text, looks.page, line)
    t.notRegex(text, /nginx/i, line)
  }
})

test('an upstream that does not answer is reported in the same format, and no answer names the proxy', async t => {
  const answers: [request: string, status: number, look?: Look][] = [
    [head('GET /dies', 'a.localhost'), 502, 'page'],
    [head('GET /long', 'a.localhost'), 502, 'page'],
    [head('GET /', 'away.localhost'), 502, 'page'],
    [head('GET /', 'nobody.localhost'), 404, 'page'],
    [head('POST /', 'a.localhost', 'Content-Length: 2097152\r\n'), 413, 'page'],
    [head('GET /dies', 'api.localhost'), 503, 'json'],
    [head('GET /long', 'files.localhost'), 503, 'text'],
    [head('GET /', 'api.localhost'), 200],
    [head('GET /', 'a.localhost'), 200],
  ]
  for (const [request, status, look] of answers) {
    const text = await raw(request)
    t.regex(text, new RegExp(`^HTTP/1\\.1 ${status} `), request)
    if (look) t.regex(text, looks[look], request)
    t.notRegex(text, /nginx|^server:/im, request)
  }
})

test('every status that nginx may answer itself has one of our pages, for every name and port', t => {
  const config = parseConfig({ BERTH_DATA: '/data', EDGE_TLS: 'local' }, '/')
  const targets = surfaceTargets(config.bind, [config.ports])
  const nginx = { modules: '/modules', http2Directive: false, brotli: false }
  const options = {
    run: 'r1',
    folder: '/data/proxy',
    scripts: '/scripts',
    nginx,
    user: null,
    id: 'e1',
    targets,
    appsDomain: 'apps.localhost',
  }
  const text = edgeConfig({
    settings: config.edge,
    ...options,
    allowPlainHttp: false,
    workerConnections: 1024,
    limitScale: 1,
  })
  const servers = text.split(/^ {2}server \{/m).filter(server => server.includes('server_name '))
  t.is(servers.length, 12)
  // The statuses for which nginx 1.22 has a page (ngx_http_error_pages), but for redirects, which nothing here makes.
  const own =
    '400 401 402 403 404 405 406 408 409 410 411 412 413 414 415 416 421 429 494 495 496 497 500 501 502 503 504 505 507'
  for (const server of servers) {
    const paged = [...server.matchAll(/error_page ([\d ]+)/g)].flatMap(([, list]) => list!.trim().split(' '))
    // 402, 406, 409 and 410 come from modules that are not there.
    const without = own.split(' ').filter(status => !paged.includes(status))
    t.deepEqual(without, ['402', '406', '409', '410'])
  }
})
