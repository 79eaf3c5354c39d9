import { connect } from 'node:net'
import test from 'ava'
import { testApi } from '../../kit/actors/api.ts'

const api = testApi()

/** Sends bytes as they are to the port of the gateway; resolves when it closes the connection. */
const sent = (bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(new URL(api().s3Url).port), '127.0.0.1', () => socket.write(bytes))
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', reject).on('close', () => resolve(text))
  })

test('a malformed HTTP request gets an error document, and its connection is closed', async t => {
  const cases: [status: string, bytes: string][] = [
    [
      '400 Bad Request',
      'PUT /private/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n',
    ],
    ['400 Bad Request', 'GET / HTTP/1.1\r\nHost : x\r\n\r\n'],
    ['400 Bad Request', 'GET / HTTP/1.1\r\n\r\n'],
    ['400 Bad Request', 'nonsense\r\n\r\n'],
    ['431 Request Header Fields Too Large', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(20_000)}\r\n\r\n`],
  ]
  for (const [status, bytes] of cases) {
    const [head = '', body = ''] = (await sent(bytes)).split('\r\n\r\n')
    const [line, ...lines] = head.split('\r\n')
    const headers = Object.fromEntries(lines.map(header => header.split(': ')))
    t.is(line, `HTTP/1.1 ${status}`)
    t.like(headers, { 'Content-Type': 'application/xml', Connection: 'close', 'Content-Length': String(body.length) })
    const id = headers['x-amz-request-id']
    t.regex(id, /^[0-9a-f-]{36}$/)
    t.regex(
      body,
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n<Error><Code>InvalidRequest<\/Code><Message>[^<]+<\/Message>/,
    )
    t.true(body.endsWith(`<RequestId>${id}</RequestId></Error>`))
  }
})
