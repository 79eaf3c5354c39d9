import test from 'ava'
import { ChunkedBody, type ChunkTerms } from '../../../api/s3/signature/chunked-body.ts'
import { sha256Hex, signature, signingKey } from '../../../api/s3/signature/signing.ts'

// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html: 66,560 bytes in chunks of 65,536 and 1,024.
const scope = { date: '20130524', region: 'us-east-1', service: 's3' }
const signer = { key: signingKey('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', scope), scope, time: '20130524T000000Z' }
const seed = '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9'
const signatures = [
  'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
  '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
  'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
]
const published: ChunkTerms = { length: 66_560, signed: { signer, seed }, trailers: [] }
const frame = (size: number, byte = 'a') =>
  `${size.toString(16)};chunk-signature=${signatures.shift()}\r\n${byte.repeat(size)}\r\n`
const publishedBody = Buffer.from([65_536, 1024, 0].map(size => frame(size)).join(''))

/** What a body contains when it arrives in pieces of this size, and its trailers. */
function read(terms: ChunkTerms, body: Buffer | string, pieceBytes = 1 << 20) {
  const bytes = Buffer.from(body)
  const chunked = new ChunkedBody(terms)
  const found: Buffer[] = []
  for (let at = 0; at < bytes.length; at += pieceBytes)
    found.push(...chunked.push(bytes.subarray(at, at + pieceBytes)).map(piece => Buffer.from(piece)))
  return { body: Buffer.concat(found).toString('latin1'), trailers: Object.fromEntries(chunked.end()) }
}

for (const pieceBytes of [1, 7, 65_537, 1 << 20])
  test(`the published chunks are verified, in pieces of ${pieceBytes} bytes`, t => {
    t.deepEqual(read(published, publishedBody, pieceBytes), { body: 'a'.repeat(66_560), trailers: {} })
  })

test('every bit that is changed, cut off or added is refused', t => {
  for (let at = 0; at < publishedBody.length; at += at < 200 || at > publishedBody.length - 1300 ? 1 : 4099) {
    const changed = Buffer.from(publishedBody)
    changed[at]! ^= 1
    t.throws(() => read(published, changed), { instanceOf: Error }, `byte ${at}`)
    t.throws(() => read(published, publishedBody.subarray(0, at)), { code: 'IncompleteBody' }, `cut at ${at}`)
  }
  t.throws(() => read(published, Buffer.concat([publishedBody, Buffer.from('x')])), { code: 'InvalidRequest' })
  t.throws(() => read({ ...published, length: 66_559 }, publishedBody), { code: 'IncompleteBody' })
  t.throws(() => read({ ...published, length: 66_561 }, publishedBody), { code: 'IncompleteBody' })
})

const trailer = 'x-amz-checksum-crc32'
const unsigned: ChunkTerms = { length: 5, signed: null, trailers: [trailer] }

test('unsigned chunks end with the trailers that were announced', t => {
  t.deepEqual(read(unsigned, `5\r\nhello\r\n0\r\n${trailer}:NhCmhg==\r\n\r\n`), {
    body: 'hello',
    trailers: { [trailer]: 'NhCmhg==' },
  })
  const refused = {
    'no trailer': '5\r\nhello\r\n0\r\n\r\n',
    'another trailer': '5\r\nhello\r\n0\r\nx-amz-checksum-sha1:x\r\n\r\n',
    'the trailer twice': `5\r\nhello\r\n0\r\n${trailer}:a\r\n${trailer}:a\r\n\r\n`,
    'a signature of trailers': `5\r\nhello\r\n0\r\n${trailer}:a\r\nx-amz-trailer-signature:${seed}\r\n\r\n`,
    'a chunk with a signature': `5;chunk-signature=${seed}\r\nhello\r\n0\r\n${trailer}:a\r\n\r\n`,
    'a size that is too small': `4\r\nhello\r\n0\r\n${trailer}:a\r\n\r\n`,
    'a size that is no number': `-5\r\nhello\r\n0\r\n${trailer}:a\r\n\r\n`,
    'lines without CR': `5\nhello\n0\n${trailer}:a\n\n`,
    'a line of 1,025 bytes': `5;${'x'.repeat(1024)}\r\nhello\r\n0\r\n\r\n`,
    'trailers of more than 8 KiB': `5\r\nhello\r\n0\r\n${trailer}:${'a'.repeat(8192)}\r\n\r\n`,
  }
  for (const [what, body] of Object.entries(refused))
    t.throws(() => read(unsigned, body), { code: 'InvalidRequest' }, what)
  t.throws(() => read(unsigned, `6\r\nhello!\r\n0\r\n${trailer}:a\r\n\r\n`), { code: 'IncompleteBody' })
})

test('signed trailers are verified after the last chunk', t => {
  const sign = (algorithm: string, lines: string[]) => signature(signer, algorithm, lines)
  const [first, last] = ['hello', ''].map(
    (
      (previous: string) => (text: string) =>
        (previous = sign('AWS4-HMAC-SHA256-PAYLOAD', [previous, sha256Hex(''), sha256Hex(text)]))
    )(seed),
  )
  const own = sign('AWS4-HMAC-SHA256-TRAILER', [last!, sha256Hex(`${trailer}:NhCmhg==\n`)])
  const body = (value: string, signed = `x-amz-trailer-signature:${own}\r\n`) =>
    `5;chunk-signature=${first}\r\nhello\r\n0;chunk-signature=${last}\r\n${trailer}:${value}\r\n${signed}\r\n`
  const terms: ChunkTerms = { length: 5, signed: { signer, seed }, trailers: [trailer] }
  t.deepEqual(read(terms, body('NhCmhg==')), { body: 'hello', trailers: { [trailer]: 'NhCmhg==' } })
  t.throws(() => read(terms, body('NhCmhA==')), { code: 'SignatureDoesNotMatch' })
  t.throws(() => read(terms, body('NhCmhg==', '')), { code: 'SignatureDoesNotMatch' })
})
