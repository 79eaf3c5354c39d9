import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { CreateMultipartUploadCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { sha256Hex, signingKey } from '../../../api/s3/signature/signing.ts'
import type { SegmentIds } from '../../../db/objects/segment-ids.ts'
import { MiB } from '../../../lib/bytes.ts'
import { CodedError } from '../../../policy/errors.ts'
import { s3ErrorOf } from '../../../policy/s3/s3-errors.ts'
import { testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { type Pair, type RawRequest, sendRaw, signed, signedForm } from '../../kit/fuzz/raw-requests.ts'
import { put } from '../../kit/objects/objects.ts'
import { s3Of } from '../../kit/s3/sdk.ts'

let segmentIds: Pick<SegmentIds, 'take'> | undefined
const api = testApi({
  services: ({ segmentIds: own }) => ({ segmentIds: { take: () => (segmentIds ?? own).take() } as SegmentIds }),
})

async function actor() {
  const user = await api().makeUser()
  const { credentials, send } = await s3Of(api(), user)
  return { user, pair: credentials, send }
}

const plain = (method: string, target: string, body = '', headers: RawRequest['headers'] = []): RawRequest => ({
  method,
  target,
  headers,
  body: Buffer.from(body),
})

const send = (request: RawRequest, pair: Pair, nearly?: (answered: Promise<unknown>) => Promise<unknown>) =>
  sendRaw(api().s3Url, signed(request, 'header', pair, api().s3Url), nearly)

const codeOf = (body: Buffer | undefined): string | undefined => /<Code>(\w+)</.exec(body?.toString() ?? '')?.[1]

test('a body of 200,000 one-byte chunks is refused', async t => {
  const { pair } = await actor()
  const chunks = 200_000
  const body = Buffer.concat([...Array<Buffer>(chunks).fill(Buffer.from('1\r\nx\r\n')), Buffer.from('0\r\n\r\n')])
  const headers: RawRequest['headers'] = [
    ['x-amz-decoded-content-length', String(chunks)],
    ['Content-Length', String(body.length)],
  ]
  const request = signed({ ...plain('PUT', '/private/tiny'), headers }, 'header', pair, api().s3Url, chunked)
  const answer = await sendRaw(api().s3Url, { ...request, body })
  t.is(answer?.status, 400)
  t.is(codeOf(answer?.body), 'InvalidRequest')
  t.is((await send(plain('HEAD', '/private/tiny'), pair))?.status, 404)
})

const chunked = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'

test('a body of 999 one-byte chunks is stored', async t => {
  const { pair } = await actor()
  const body = Buffer.concat([...Array<Buffer>(999).fill(Buffer.from('1\r\nx\r\n')), Buffer.from('0\r\n\r\n')])
  const headers: RawRequest['headers'] = [
    ['x-amz-decoded-content-length', '999'],
    ['Content-Length', String(body.length)],
  ]
  const request = signed({ ...plain('PUT', '/private/small'), headers }, 'header', pair, api().s3Url, chunked)
  t.is((await sendRaw(api().s3Url, { ...request, body }))?.status, 200)
  t.is((await send(plain('GET', '/private/small'), pair))?.body.toString(), 'x'.repeat(999))
})

test('a document with more chunk frames than content is EntityTooLarge, not an internal error', async t => {
  const { pair } = await actor()
  const chunks = 900_000
  const body = Buffer.concat([...Array<Buffer>(chunks).fill(Buffer.from('1\r\nx\r\n')), Buffer.from('0\r\n\r\n')])
  const headers: RawRequest['headers'] = [
    ['x-amz-decoded-content-length', String(chunks)],
    ['x-amz-trailer', 'x-amz-checksum-crc32'],
    ['Content-Length', String(body.length)],
  ]
  const request = signed({ ...plain('POST', '/private?delete'), headers }, 'header', pair, api().s3Url, chunked)
  const answer = await sendRaw(api().s3Url, { ...request, body })
  t.is(answer?.status, 400)
  t.is(codeOf(answer?.body), 'EntityTooLarge')
  t.is(s3ErrorOf(new CodedError('INVALID_JSON_BODY')).code, 'IncompleteBody', 'a document that takes 30 s')
})

test('a key that is revoked while a document arrives deletes nothing', async t => {
  const { user, pair } = await actor()
  t.is((await send(plain('PUT', '/private/kept', 'x'), pair))?.status, 200)
  const revoked = async () => {
    await api().db('api_keys').where({ id: user.keyId }).update({ revoked_at: api().db.fn.now() })
    await new Promise(resolve => setTimeout(resolve, 1600))
  }
  const document = '<Delete><Object><Key>kept</Key></Object></Delete>'
  const answer = await send(plain('POST', '/private?delete', document), pair, revoked)
  t.is(codeOf(answer?.body), 'InvalidAccessKeyId')
  t.truthy(await api().db('objects').where({ owner_id: user.id, key: 'kept' }).first())
})

test('tags of a legacy object cannot be changed', async t => {
  const { user, pair } = await actor()
  await put(api().db, { ownerId: user.id, bucket: 'legacy', key: 'old' }, 'old')
  const document = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>'
  t.is(codeOf((await send(plain('PUT', '/legacy/old?tagging', document), pair))?.body), 'AccessDenied')
  t.is(codeOf((await send(plain('DELETE', '/legacy/old?tagging'), pair))?.body), 'AccessDenied')
  t.is((await send(plain('GET', '/legacy/old?tagging'), pair))?.status, 200)
})

test('a header in UTF-8 is verified byte for byte, even if one of its bytes is a space in Latin-1', async t => {
  const { pair } = await actor()
  const time = new Date().toISOString().replace(/[-:]|\.\d{3}/g, '')
  const date = time.slice(0, 8)
  const { host } = new URL(api().s3Url)
  const names = 'host;x-amz-content-sha256;x-amz-date;x-amz-meta-a'
  const empty = sha256Hex('')
  const lines = [`host:${host}`, `x-amz-content-sha256:${empty}`, `x-amz-date:${time}`, 'x-amz-meta-a:voilà à']
  const canonical = ['PUT', '/private/utf8', '', ...lines, '', names, empty].join('\n')
  const toSign = ['AWS4-HMAC-SHA256', time, `${date}/auto/s3/aws4_request`, sha256Hex(canonical)].join('\n')
  const key = signingKey(pair.secretAccessKey, { date, region: 'auto', service: 's3' })
  const signature = createHmac('sha256', key).update(toSign).digest('hex')
  const answer = await sendRaw(api().s3Url, {
    ...plain('PUT', '/private/utf8'),
    headers: [
      ['Host', host],
      ['Connection', 'close'],
      ['Content-Length', '0'],
      ['x-amz-content-sha256', empty],
      ['x-amz-date', time],
      ['x-amz-meta-a', Buffer.from('voilà à').toString('latin1')],
      [
        'Authorization',
        `AWS4-HMAC-SHA256 Credential=${pair.accessKeyId}/${date}/auto/s3/aws4_request, SignedHeaders=${names}, Signature=${signature}`,
      ],
    ],
  })
  t.is(answer?.status, 200, answer?.body.toString())
})

test('large documents of one account share 16 MB of memory, beyond the first MB of each', async t => {
  const { pair } = await actor()
  const document = `<Delete><Object><Key>a</Key></Object>${' '.repeat(2 * MiB - 100)}</Delete>`
  let refused = 0
  let fourAreRefused = () => {}
  const four = new Promise<void>(resolve => {
    fourAreRefused = resolve
  })
  /** Only what is refused is answered before its last byte. */
  const held = async (answered: Promise<unknown>) => {
    void answered.then(() => {
      if (++refused === 4) fourAreRefused()
    })
    await four
  }
  const requests = Array.from({ length: 20 }, () => send(plain('POST', '/private?delete', document), pair, held))
  const answers = await Promise.all(requests)
  t.is(answers.filter(answer => answer?.status === 200).length, 16)
  t.is(answers.filter(answer => codeOf(answer?.body) === 'SlowDown').length, 4)
  t.is((await send(plain('POST', '/private?delete', document), pair))?.status, 200, 'all of it was given back')
})

/** Sends a part of what a request announces, waits until its slot is taken, and disconnects. */
async function leave({ method, target, headers }: RawRequest, body: Buffer, userId: string): Promise<void> {
  const slots = async () =>
    (
      await api()
        .db('blob_leases')
        .where({ subject: `upload/${userId}` })
    ).length
  const { hostname, port } = new URL(api().s3Url)
  const socket = connect(Number(port), hostname)
  socket.write([`${method} ${target} HTTP/1.1`, ...headers.map(header => header.join(': ')), '', ''].join('\r\n'))
  socket.write(body)
  await comesTrue(async () => (await slots()) === 1, 5)
  socket.destroy()
  await comesTrue(async () => (await slots()) === 0, 5)
}

for (const bytes of [0, 10, 100_000])
  test(`a client that disconnects after ${bytes} bytes holds no slot`, async t => {
    const { user, pair, send: sendCommand } = await actor()
    const { UploadId } = await sendCommand(new CreateMultipartUploadCommand({ Bucket: 'private', Key: 'c' }))
    const half = Buffer.alloc(bytes, 'x')
    const length: RawRequest['headers'] = [['Content-Length', '1000000']]
    for (const target of ['/private/half', `/private/c?partNumber=1&uploadId=${UploadId}`])
      await leave(signed(plain('PUT', target, '', length), 'header', pair, api().s3Url), half, user.id)
    const where = { bucket: 'private', pair, url: api().s3Url }
    const form = signedForm([['key', 'half']], Buffer.alloc(bytes + 100, 'x'), where)
    await leave(form, form.body.subarray(0, -100), user.id)
    t.deepEqual(await api().db('objects').where({ owner_id: user.id }), [])
  })

test.serial(
  'an UploadPartCopy whose client disconnects while the database is unavailable does not end the process',
  async t => {
    const { pair, send: sendCommand } = await actor()
    const big = { ...plain('PUT', '/private/big'), body: Buffer.alloc(12 * MiB, 'x') }
    t.is((await send(big, pair))?.status, 200)
    const { UploadId } = await sendCommand(new CreateMultipartUploadCommand({ Bucket: 'private', Key: 'c' }))
    let hasLeft = () => {}
    const left = new Promise<void>(resolve => {
      hasLeft = resolve
    })
    let client = () => {}
    segmentIds = {
      async take() {
        client()
        await left
        throw new Error('the database is away')
      },
    }
    const request = signed(
      plain('PUT', `/private/c?partNumber=1&uploadId=${UploadId}`, '', [
        ['x-amz-copy-source', 'private/big'],
        ['x-amz-copy-source-range', `bytes=1-${11 * MiB}`],
      ]),
      'header',
      pair,
      api().s3Url,
    )
    const { hostname, port } = new URL(api().s3Url)
    const socket = connect(Number(port), hostname)
    client = () => socket.destroy()
    const lines = [`PUT ${request.target} HTTP/1.1`, ...request.headers.map(header => header.join(': ')), '', '']
    socket.write(lines.join('\r\n'))
    await once(socket, 'close')
    await new Promise(resolve => setTimeout(resolve, 100))
    hasLeft()
    await new Promise(resolve => setTimeout(resolve, 300))
    segmentIds = undefined
    t.is((await send(plain('GET', '/private?list-type=2'), pair))?.status, 200)
  },
)
