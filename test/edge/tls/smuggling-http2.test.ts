import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import {
  endHeaders,
  endStream,
  type Field,
  frameConnection,
  frames,
  requestTo,
} from '../../kit/servers/http2-frames.ts'
import { type Issuer, testIssuer } from '../../kit/servers/https.ts'
import { type Origin, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

let proxy: TestProxy
let origin: Origin
let issuer: Issuer
const reached: string[] = []

test.before(async () => {
  proxy = await startProxy({ EDGE_TLS: 'local', EDGE_CONNECTIONS_PER_ADDRESS: '1000' })
  issuer = await testIssuer()
  // A body that was cut off has no end.
  origin = await startOrigin((incoming, answer) => {
    incoming.resume().on('error', () => {})
    incoming.on('end', () => {
      reached.push(String(incoming.url))
      answer.end('reached')
    })
  })
  await proxy.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  await proxy.edge.setCertificate(await issuer.issue('a.localhost'))
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

const without = (fields: Field[], name: string) => fields.filter(([each]) => each !== name)
const all = endHeaders | endStream
const hidden = 'GET /hidden HTTP/1.1\r\nHost: a.localhost\r\n\r\n'

const large = ['x', 'y', 'z'].map(name => [name, name.repeat(4000)] as const)

/** A request as bytes, and its path. */
type Case = [path: string, ...frames: Buffer[]]

const refused: Record<string, Case> = {
  'a transfer coding': [
    '/h1',
    frames.headers(1, requestTo('/h1', ['transfer-encoding', 'chunked'])),
    frames.data(1, `0\r\n\r\n${hidden}`, endStream),
  ],
  'a transfer coding and a length': [
    '/h2',
    frames.headers(1, requestTo('/h2', ['transfer-encoding', 'chunked'], ['content-length', '5'])),
    frames.data(1, '0\r\n\r\n', endStream),
  ],
  'a length below the body': [
    '/h3',
    frames.headers(1, requestTo('/h3', ['content-length', '0'])),
    frames.data(1, hidden, endStream),
  ],
  'a length above the body': [
    '/h4',
    frames.headers(1, requestTo('/h4', ['content-length', '99'])),
    frames.data(1, 'abc', endStream),
  ],
  'a length without a body': ['/h5', frames.headers(1, requestTo('/h5', ['content-length', '5']), all)],
  'two lengths': [
    '/h6',
    frames.headers(1, requestTo('/h6', ['content-length', '3'], ['content-length', '4'])),
    frames.data(1, 'abc', endStream),
  ],
  'a list of lengths': [
    '/h7',
    frames.headers(1, requestTo('/h7', ['content-length', '3, 3'])),
    frames.data(1, 'abc', endStream),
  ],
  'a length with a sign': [
    '/h8',
    frames.headers(1, requestTo('/h8', ['content-length', '+3'])),
    frames.data(1, 'abc', endStream),
  ],
  'a line break in a value': ['/h9', frames.headers(1, requestTo('/h9', ['x', `a\r\n\r\n${hidden}`]), all)],
  'a bare LF in a value': ['/h10', frames.headers(1, requestTo('/h10', ['x', 'a\ntransfer-encoding: chunked']), all)],
  'a NUL in a value': ['/h11', frames.headers(1, requestTo('/h11', ['x', 'a\0b']), all)],
  'a line break in a name': ['/h12', frames.headers(1, requestTo('/h12', ['x: a\r\ny', 'b']), all)],
  'a colon in a name': ['/h13', frames.headers(1, requestTo('/h13', ['x:y', 'b']), all)],
  'a name in upper case': ['/h14', frames.headers(1, requestTo('/h14', ['X', 'b']), all)],
  'an empty name': ['/h15', frames.headers(1, requestTo('/h15', ['', 'b']), all)],
  'a line break in the path': ['/h16', frames.headers(1, requestTo(`/h16 HTTP/1.1\r\n${hidden}`), all)],
  'a space in the path': ['/h17', frames.headers(1, requestTo('/h17 x'), all)],
  'a NUL in the path': ['/h18', frames.headers(1, requestTo('/h18%00'), all)],
  'a path above the root': ['/h19', frames.headers(1, requestTo('/../h19'), all)],
  'a path that is none': ['/h20', frames.headers(1, requestTo('h20'), all)],
  'an absolute path of another host': ['/h21', frames.headers(1, requestTo('https://b.localhost/h21'), all)],
  'no path': ['/h22', frames.headers(1, without(requestTo('/h22'), ':path'), all)],
  'two paths': ['/h23', frames.headers(1, requestTo('/h23', [':path', '/other']), all)],
  'no method': ['/h24', frames.headers(1, without(requestTo('/h24'), ':method'), all)],
  'a method with a line break': [
    '/h25',
    frames.headers(1, [[':method', `GET /hidden HTTP/1.1\r\n\r\n`], ...without(requestTo('/h25'), ':method')], all),
  ],
  'a method in small letters': [
    '/h26',
    frames.headers(1, [[':method', 'get'], ...without(requestTo('/h26'), ':method')], all),
  ],
  'a tunnel': [
    '/h27',
    frames.headers(
      1,
      [
        [':method', 'CONNECT'],
        [':authority', '127.0.0.1:80'],
      ],
      all,
    ),
  ],
  'a WebSocket by extended CONNECT': [
    '/h28',
    frames.headers(
      1,
      [[':method', 'CONNECT'], [':protocol', 'websocket'], ...without(requestTo('/h28'), ':method')],
      all,
    ),
  ],
  'no authority': ['/h29', frames.headers(1, without(requestTo('/h29'), ':authority'), all)],
  'an authority and another host': ['/h30', frames.headers(1, requestTo('/h30', ['host', 'b.localhost']), all)],
  'two authorities': ['/h31', frames.headers(1, requestTo('/h31', [':authority', 'b.localhost']), all)],
  'two hosts': [
    '/h32',
    frames.headers(
      1,
      [...without(requestTo('/h32'), ':authority'), ['host', 'a.localhost'], ['host', 'b.localhost']],
      all,
    ),
  ],
  'an authority with a path': [
    '/h33',
    frames.headers(1, [...without(requestTo('/h33'), ':authority'), [':authority', 'a.localhost/x']], all),
  ],
  'an authority with a user': [
    '/h34',
    frames.headers(1, [...without(requestTo('/h34'), ':authority'), [':authority', 'b.localhost@a.localhost']], all),
  ],
  'an unknown pseudo header': ['/h36', frames.headers(1, [[':x', '1'], ...requestTo('/h36')], all)],
  'a header of the connection': ['/h37', frames.headers(1, requestTo('/h37', ['connection', 'close']), all)],
  'an upgrade to WebSocket': [
    '/h38',
    frames.headers(1, requestTo('/h38', ['upgrade', 'websocket'], ['sec-websocket-key', 'x']), all),
  ],
  'an upgrade to h2c': [
    '/h39',
    frames.headers(1, requestTo('/h39', ['upgrade', 'h2c'], ['http2-settings', 'AAMAAABkAAQ']), all),
  ],
  'keep-alive': ['/h40', frames.headers(1, requestTo('/h40', ['keep-alive', 'timeout=5']), all)],
  'proxy-connection': ['/h41', frames.headers(1, requestTo('/h41', ['proxy-connection', 'close']), all)],
  'TE other than trailers': ['/h42', frames.headers(1, requestTo('/h42', ['te', 'chunked']), all)],
  'over 100 headers': [
    '/h43',
    frames.headers(1, requestTo('/h43', ...Array.from({ length: 100 }, () => ['x', '1'] as const)), all),
  ],
  'headers over 16 KB': [
    '/h44',
    frames.headers(1, requestTo('/h44', ...large), endStream),
    frames.continuation(1, large, 0),
    frames.continuation(1, large),
  ],
  'a continuation of another stream': [
    '/h45',
    frames.headers(1, requestTo('/h45'), 0),
    frames.continuation(3, [['x', '1']]),
  ],
}

for (const [name, [path, ...bytes]] of Object.entries(refused))
  test(`HTTP/2, ${name}: refused, and nothing reaches the application`, async t => {
    const { socket, until } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
    t.teardown(() => socket.destroy())
    socket.write(Buffer.concat(bytes))
    const { statuses, resets, ended } = await until(({ statuses, resets }) => statuses.has(1) || resets.includes(1))
    const status = statuses.get(1)
    t.true(ended || resets.includes(1) || (status !== undefined && status >= 400 && status < 500), `status ${status}`)
    t.deepEqual(
      reached.filter(url => url.includes(path.slice(1)) || url === '/hidden' || url === '/other'),
      [],
    )
  })

test('HTTP/2, a body after an empty one was announced: refused although the application is waiting for requests', async t => {
  const open = async () => {
    const connection = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
    t.teardown(() => connection.socket.destroy())
    return connection
  }
  // Its connection is kept, so that a request could be passed on as soon as its headers are there.
  const first = await open()
  first.socket.write(frames.headers(1, requestTo('/warm'), all))
  await first.until(({ statuses }) => statuses.has(1))
  const { socket, until } = await open()
  socket.write(frames.headers(1, requestTo('/late', ['content-length', '0']), endHeaders))
  await sleep(100)
  socket.write(frames.data(1, hidden, endStream))
  const { statuses, resets, ended } = await until(({ statuses, resets }) => statuses.has(1) || resets.includes(1))
  t.true(ended || resets.includes(1) || statuses.get(1) === 400, `status ${statuses.get(1)}`)
  t.deepEqual(
    reached.filter(url => url === '/late' || url === '/hidden'),
    [],
  )
  const third = await open()
  third.socket.write(frames.headers(1, requestTo('/empty', ['content-length', '0']), endHeaders))
  await sleep(100)
  third.socket.write(frames.data(1, '', endStream))
  t.is((await third.until(({ statuses }) => statuses.has(1))).statuses.get(1), 200, 'an empty body may come late')
})
