import { connect } from 'node:net'
import test from 'ava'
import { testApi } from '../../kit/actors/api.ts'

const api = testApi()

interface Heard {
  text: string
  /** Whether the server ended the connection. */
  ended: boolean
}

/** Sends a head and nothing more; resolves once the server ends the connection, or has said `until`. */
function asked(head: string, until = '\0'): Promise<Heard> {
  return new Promise(resolve => {
    let text = ''
    let ended = false
    const socket = connect(Number(new URL(api().url).port), '127.0.0.1', () => socket.write(head))
    socket.on('data', chunk => {
      text += chunk
      if (text.includes(until)) socket.destroy()
    })
    socket.on('end', () => {
      ended = true
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve({ text, ended }))
  })
}

const head = (line: string, fields: Record<string, string | number>) =>
  `${line}\r\n${Object.entries({ Host: 'x', ...fields })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

const patch = 'PATCH /v2/account/username HTTP/1.1'
const renaming = JSON.stringify({ username: 'Bea' })

test('a request that is refused before its body gets one immediate answer, and the connection ends', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeApp(ana)
  const waiting = { Expect: '100-continue', 'Content-Length': 1000 }
  const form = { Authorization: ana.key, 'Content-Type': 'multipart/form-data; boundary=x', Expect: '100-continue' }
  const cases: [head: string, status: number, code: string][] = [
    [head('POST /v2/apps HTTP/1.1', waiting), 401, 'ACCESS_DENIED'],
    [head(patch, { ...waiting, Authorization: ana.key }), 401, 'ACCESS_DENIED'],
    [head(patch, { ...waiting, Authorization: ana.session, 'Content-Length': 2 ** 21 }), 413, 'PAYLOAD_TOO_LARGE'],
    [head('POST /v2/apps HTTP/1.1', { ...form, 'Content-Length': 2 ** 30 }), 413, 'FILE_TOO_LARGE'],
    [head(`POST /v2/apps/${id}/commit HTTP/1.1`, { ...form, 'Content-Length': 2 ** 30 }), 413, 'FILE_TOO_LARGE'],
    [head('POST /v2/nothing HTTP/1.1', waiting), 404, 'ROUTE_NOT_FOUND'],
  ]
  for (const [request, status, code] of cases) {
    const { text, ended } = await asked(request)
    t.regex(text, new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*"code":"${code}"`), request)
    t.regex(text, /^Connection: close/im, request)
    t.is(text.split('HTTP/1.1').length, 2, 'one answer')
    t.true(ended)
  }
})

test('100-continue is sent, even among other expectations, which are ignored', async t => {
  const ana = await api().makeUser()
  const fields = { Authorization: ana.session, 'Content-Length': renaming.length }
  for (const Expect of ['100-continue', '100-Continue', '100-continue, later', 'later, 100-continue']) {
    const { text } = await asked(head(patch, { ...fields, Expect }), '\r\n\r\n')
    t.is(text, 'HTTP/1.1 100 Continue\r\n\r\n', Expect)
  }
  const other = await asked(head(patch, { ...fields, Expect: '200-maybe' }) + renaming, '}}')
  t.regex(other.text, /^HTTP\/1\.1 200 [\s\S]*"new":"Bea"/)
})

test('a client of HTTP 1.0 is never sent a 100', async t => {
  const ana = await api().makeUser()
  const fields = { Authorization: ana.session, 'Content-Length': renaming.length, Expect: '100-continue' }
  const { text } = await asked(head('PATCH /v2/account/username HTTP/1.0', fields) + renaming, '}}')
  t.regex(text, /^HTTP\/1\.1 200 /)
})
