import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { probe } from '../../../activities/health/probe.ts'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { startOrigin } from '../../kit/servers/origin.ts'

const here = { address: '127.0.0.1', path: '/ready', host: 'shop.apps.localhost' }
const signal = () => new AbortController().signal

/** A server that does something with each connection; `received` counts the bytes that its peer took from it. */
async function raw(t: ExecutionContext, onConnection: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    onConnection(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

/** Writes a piece for as long as the peer takes it. */
function flood(socket: Socket, piece: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  }
  socket.on('drain', more)
  more()
}

test('the program gets its own host name and path, and answers from 200 to 399 are healthy', async t => {
  const seen: unknown[] = []
  let status = 200
  const origin = await startOrigin((incoming, answer) => {
    seen.push([incoming.method, incoming.url, incoming.headers.host, incoming.headers['user-agent']])
    answer.writeHead(status, { location: 'http://10.0.0.1/elsewhere' }).end('text')
  })
  t.teardown(origin.stop)
  const check = () => probe({ ...here, port: origin.port, path: '/ready?deep=1', signal: signal() })
  t.is(await check(), null)
  for (status of [204, 302, 399]) t.is(await check(), null, `${status}`)
  for (status of [400, 404, 500, 503]) t.deepEqual(await check(), { reason: `/ready?deep=1 answered ${status}` })
  t.deepEqual(seen[0], ['GET', '/ready?deep=1', 'shop.apps.localhost', 'berth-health'])
  t.is(seen.length, 8, 'redirects are not followed')
})

test('a port that nobody listens on is refused', async t => {
  const outcome = await probe({ ...here, port: await unusedPort(), signal: signal() })
  t.deepEqual(outcome, { reason: '/ready could not be requested: the connection was refused' })
})

const head = 'HTTP/1.1 200 OK\r\n'
/** First a piece, then another every 20 ms. */
const drip = (first: string) => (socket: Socket) => {
  socket.write(first)
  const timer = setInterval(() => socket.write('a'), 20)
  socket.on('close', () => clearInterval(timer))
}

/** First a piece, then another for as long as it is taken. */
const endless = (first: string, piece: string) => (socket: Socket) => {
  socket.write(first)
  flood(socket, piece)
}

const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'
const late = 'gave no answer within 0.5 s'
const hostile: Record<string, [(socket: Socket) => void, string | null]> = {
  'closes at once': [socket => socket.end(), 'gave no answer: the connection was closed'],
  'resets the connection': [socket => socket.resetAndDestroy(), 'gave no answer: the connection was closed'],
  'says nothing': [() => {}, late],
  'sends its header a byte at a time': [drip(`${head}X: `), late],
  'sends one header without end': [endless(`${head}X: `, 'a'.repeat(8192)), 'answered with more than 16 KB of headers'],
  'sends headers without end': [endless(head, 'X: y\r\n'.repeat(1000)), 'answered with more than 16 KB of headers'],
  'sends interim answers without end': [
    endless('', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100)),
    'gave no valid HTTP answer',
  ],
  'speaks another protocol': [endless('', 'SSH-2.0-OpenSSH\r\n'), 'gave no valid HTTP answer'],
  'switches protocols': [socket => socket.write(upgrade), 'answered 101'],
  'answers with a body without end': [endless(`${head}\r\n`, 'a'.repeat(8192)), null],
  'answers with chunks without end': [
    endless(`${head}Transfer-Encoding: chunked\r\n\r\n`, '1\r\na\r\n'.repeat(1000)),
    null,
  ],
  'answers 500 with a body that drips': [drip('HTTP/1.1 500 No\r\n\r\n'), 'answered 500'],
  'answers and resets in the middle of its body': [
    socket => {
      socket.write(`${head}Content-Length: 10\r\n\r\na`, () => setTimeout(() => socket.resetAndDestroy(), 50))
    },
    null,
  ],
}

/** Those that only the deadline ends. */
const endedByTime = ['says nothing', 'sends its header a byte at a time', 'answers 500 with a body that drips']

for (const [name, [onConnection, reason]] of Object.entries(hostile))
  test.serial(`a program that ${name} costs a bounded answer, and its connection is closed`, async t => {
    t.timeout(60_000)
    let closed!: () => void
    const ended = new Promise<void>(resolve => {
      closed = resolve
    })
    const { port } = await raw(t, socket => {
      socket.on('close', closed).resume()
      onConnection(socket)
    })
    const withinMs = endedByTime.includes(name) ? 500 : 3_600_000
    const outcome = await probe({ ...here, port, withinMs, signal: signal() })
    t.deepEqual(outcome, reason === null ? null : { reason: `/ready ${reason}` })
    await ended
  })

test.serial('of an endless body no more is read than its bound and what the connection has buffered', async t => {
  let written = 0
  const { port } = await raw(t, socket => {
    socket.resume()
    socket.write(`${head}\r\n`)
    const more = () => {
      while (!socket.destroyed && socket.write('a'.repeat(8192)));
      written = socket.bytesWritten
    }
    socket.on('drain', more)
    more()
  })
  t.is(await probe({ ...here, port, withinMs: 60_000, signal: signal() }), null)
  t.true(written < 16 * 1024 * 1024, `${written} bytes`)
})

test('an end of the host ends a check immediately, without an outcome', async t => {
  const { port, sockets } = await raw(t, () => {})
  const ends = new AbortController()
  const check = probe({ ...here, port, withinMs: 3_600_000, signal: ends.signal })
  await comesTrue(() => sockets.size > 0)
  ends.abort()
  t.deepEqual(await check, { reason: '/ready was not checked: its host stops', own: true })
  t.true((await probe({ ...here, port, signal: ends.signal }))?.own)
})
