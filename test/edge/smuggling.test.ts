import { once } from 'node:events'
import { connect } from 'node:net'
import test from 'ava'
import { type Origin, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

let proxy: TestProxy
let origin: Origin
const reached: string[] = []

test.before(async () => {
  proxy = await startProxy()
  origin = await startOrigin((incoming, answer) => {
    reached.push(String(incoming.url))
    answer.end('reached')
  })
  await proxy.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

/** Sends bytes as they are and resolves to everything that comes back until the proxy closes (or 2 s of silence). */
async function raw(bytes: string): Promise<{ text: string; closed: boolean }> {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  let closed = false
  socket.on('data', chunk => {
    text += chunk
  })
  socket.on('error', () => {})
  socket.on('end', () => {
    closed = true
  })
  socket.write(bytes, 'latin1')
  await Promise.race([once(socket, 'close'), new Promise(resolve => setTimeout(resolve, 2000))])
  socket.destroy()
  return { text, closed }
}

const head = (path: string) => `POST ${path} HTTP/1.1\r\nHost: a.localhost\r\n`
const hidden = 'GET /hidden HTTP/1.1\r\nHost: a.localhost\r\n\r\n'

const refused: Record<string, string> = {
  'length and transfer coding together': `${head('/1')}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'two lengths': `${head('/2')}Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
  'a list of lengths': `${head('/3')}Content-Length: 0, ${hidden.length}\r\n\r\n${hidden}`,
  'a length with a sign': `${head('/3b')}Content-Length: +5\r\n\r\nhello`,
  'an unknown transfer coding': `${head('/4')}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${hidden}`,
  'two transfer codings': `${head('/5')}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'transfer coding twice': `${head('/6')}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'a bare LF between headers': `GET /7 HTTP/1.1\r\nHost: a.localhost\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a bare LF after the request line': 'GET /8 HTTP/1.1\nHost: a.localhost\r\n\r\n',
  'a bare LF as the empty line': 'GET /9 HTTP/1.1\r\nHost: a.localhost\r\n\n',
  'only bare LF': 'GET /10 HTTP/1.1\nHost: a.localhost\n\n',
  'a folded header': 'GET /11 HTTP/1.1\r\nHost: a.localhost\r\nX: a\r\n b\r\n\r\n',
  'a space before the colon': 'GET /12 HTTP/1.1\r\nHost: a.localhost\r\nContent-Length : 0\r\n\r\n',
  'two hosts': 'GET /13 HTTP/1.1\r\nHost: a.localhost\r\nHost: b.localhost\r\n\r\n',
  'an absolute target of another host': 'GET http://a.localhost/14 HTTP/1.1\r\nHost: b.localhost\r\n\r\n',
  'no host': 'GET /15 HTTP/1.0\r\n\r\n',
  'a NUL in a header': 'GET /16 HTTP/1.1\r\nHost: a.localhost\r\nX: a\0b\r\n\r\n',
  'over 100 headers': `GET /17 HTTP/1.1\r\nHost: a.localhost\r\n${'X: 1\r\n'.repeat(100)}\r\n`,
  'a space in the target': 'GET /a b HTTP/1.1\r\nHost: a.localhost\r\n\r\n',
  'a NUL in the target': 'GET /a%00b HTTP/1.1\r\nHost: a.localhost\r\n\r\n',
  'a target above the root': 'GET /../19 HTTP/1.1\r\nHost: a.localhost\r\n\r\n',
  'a method in small letters': 'get /20 HTTP/1.1\r\nHost: a.localhost\r\n\r\n',
  'a tunnel': 'CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: a.localhost\r\n\r\n',
  'a target over 8 KB': `GET /${'y'.repeat(9000)} HTTP/1.1\r\nHost: a.localhost\r\n\r\n`,
}

for (const [name, bytes] of Object.entries(refused))
  test(`${name}: 400 and close, nothing reaches the application`, async t => {
    const before = reached.length
    const { text, closed } = await raw(bytes)
    t.regex(text, /^HTTP\/1\.[01] 400 /, text.slice(0, 200))
    t.is(text.split('HTTP/1.').length - 1, 1, 'more than one answer')
    t.true(closed)
    t.deepEqual(
      reached.slice(before).filter(url => url === '/hidden' || bytes.includes(`${url} HTTP`)),
      [],
    )
  })

test('headers over 16 KB: 431 and close, nothing reaches the application', async t => {
  const { text, closed } = await raw(
    `GET /18 HTTP/1.1\r\nHost: a.localhost\r\n${`X: ${'y'.repeat(4000)}\r\n`.repeat(6)}\r\n`,
  )
  t.regex(text, /^HTTP\/1\.1 431 /)
  t.true(closed)
  t.false(reached.includes('/18'))
})

test('a correct chunked request and 100 headers pass', async t => {
  const chunked = await raw(
    `${head('/ok')}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
  )
  t.regex(chunked.text, /^HTTP\/1\.1 200 [\s\S]*reached/)
  const many = await raw(`GET /many HTTP/1.1\r\nHost: a.localhost\r\nConnection: close\r\n${'X: 1\r\n'.repeat(98)}\r\n`)
  t.regex(many.text, /^HTTP\/1\.1 200 /)
  const absolute = await raw(
    'GET http://a.localhost/abs HTTP/1.1\r\nHost: a.localhost:8080\r\nConnection: close\r\n\r\n',
  )
  t.regex(absolute.text, /^HTTP\/1\.1 200 /)
})
