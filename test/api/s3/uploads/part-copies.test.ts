import { createHash, randomBytes } from 'node:crypto'
import {
  GetObjectCommand,
  PutObjectCommand,
  UploadPartCopyCommand,
  type UploadPartCopyCommandInput,
} from '@aws-sdk/client-s3'
import test from 'ava'
import { startUpload } from '../../../../db/objects/uploads/upload-starts.ts'
import { endSlotLease } from '../../../../db/slot-leases.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { checksum } from '../../../../lib/checksums.ts'
import { ownCounters } from '../../../../policy/counters.ts'
import { s3Counts } from '../../../../policy/s3/s3-limits.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { refusal, type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { completed, opened, sent } from '../../../kit/s3/parts.ts'

const api = testApi()

const Bucket = 'private'
const [first, second] = [randomBytes(5 * MiB), randomBytes(1000)]
const md5 = (bytes: Buffer) => `"${createHash('md5').update(bytes).digest('hex')}"`

/** An account with an object in two parts, a small object, and an empty one. */
async function withSources() {
  const ana = await s3Account(api())
  const id = await opened(ana, 'large')
  await sent(ana, 'large', id, 1, first)
  await sent(ana, 'large', id, 2, second)
  await completed(ana, 'large', id, [1, 2])
  await ana.send(new PutObjectCommand({ Bucket, Key: 'small/ü +.txt', Body: 'hello world' }))
  await ana.wire.send('PUT', '/private/empty')
  return ana
}

const copy = (
  { send }: S3Account,
  UploadId: string,
  PartNumber: number,
  CopySource: string,
  more: Partial<UploadPartCopyCommandInput> = {},
) => send(new UploadPartCopyCommand({ Bucket, Key: 'copy', UploadId, PartNumber, CopySource, ...more }))

const contentOf = async ({ send }: S3Account, Key: string, Range?: string) =>
  Buffer.from(await (await send(new GetObjectCommand({ Bucket, Key, Range }))).Body!.transformToByteArray())

const segmentsOf = (id: string): Promise<string[]> =>
  api().db('upload_parts').where({ upload_id: id }).orderBy('part').pluck('segment_id')

const small = `${Bucket}/${encodeURIComponent('small/ü +.txt')}`

// Serial, because it counts all stored files.
test.serial('a range that is a whole stored part is shared without moving bytes, and outlives its source', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  const files = await api().store.files()
  const range = { CopySourceRange: `bytes=0-${first.length - 1}` }
  t.is((await copy(ana, id, 1, 'private/large', range)).CopyPartResult?.ETag, md5(first))
  t.is((await copy(ana, id, 2, small)).CopyPartResult?.ETag, md5(Buffer.from('hello world')))
  t.is(await api().store.files(), files)
  const refs = await api()
    .db('segments')
    .whereIn('id', await segmentsOf(id))
    .pluck('refs')
  t.deepEqual(refs, [2, 2])
  const done = await completed(ana, 'copy', id, [1, 2])
  t.regex(done.ETag!, /-2"$/)
  for (const Key of ['large', 'small/ü +.txt']) await ana.wire.send('DELETE', `/private/${encodeURIComponent(Key)}`)
  t.true((await contentOf(ana, 'copy')).equals(Buffer.concat([first, Buffer.from('hello world')])))
  t.is((await contentOf(ana, 'copy', 'bytes=-5')).toString(), 'world')
})

test('a range across parts, one of a small object and a whole object in parts are read and stored again', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  const whole = Buffer.concat([first, second])
  const cases: [source: string, range: string | undefined, expected: Buffer][] = [
    ['private/large', `bytes=10-${first.length + 499}`, whole.subarray(10, first.length + 500)],
    [small, 'bytes=6-10', Buffer.from('world')],
    ['private/large', undefined, whole],
    ['/private/large', 'bytes=0-0', whole.subarray(0, 1)],
    ['private/large?versionId=null', `bytes=${first.length}-${first.length}`, second.subarray(0, 1)],
  ]
  for (const [n, [source, CopySourceRange, expected]] of cases.entries()) {
    const { CopyPartResult } = await copy(ana, id, n + 1, source, { CopySourceRange })
    t.is(CopyPartResult?.ETag, md5(expected), `${source} ${CopySourceRange}`)
    t.true(CopyPartResult!.LastModified instanceof Date)
  }
  await completed(ana, 'copy', id, [1, 2])
  t.true((await contentOf(ana, 'copy')).equals(Buffer.concat([cases[0]![2], cases[1]![2]])))
})

test('bytes that are copied for a part count against a limit of the account, and shared ones do not', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  const { limiter, config } = api().services
  const [row] = s3Counts.copiedMiB
  const counters = ownCounters('s3.copiedMiB', [row], { user: ana.user, scale: config.rateLimitScale })
  await limiter.admit(counters, row.allow * config.rateLimitScale - 7)
  const range = { CopySourceRange: `bytes=1-${first.length - 1}` }
  await t.notThrowsAsync(copy(ana, id, 1, 'private/large', range))
  t.is(await refusal(copy(ana, id, 2, 'private/large', range)), 'SlowDown')
  await t.notThrowsAsync(copy(ana, id, 2, 'private/large', { CopySourceRange: `bytes=0-${first.length - 1}` }))
})

test('a copied part that finds no slot spends none of these bytes; past their limit Retry-After says how long it lasts', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  const { limiter, config } = api().services
  const [row] = s3Counts.copiedMiB
  const counters = ownCounters('s3.copiedMiB', [row], { user: ana.user, scale: config.rateLimitScale })
  const headers = { 'x-amz-copy-source': 'private/large', 'x-amz-copy-source-range': `bytes=1-${first.length - 1}` }
  const copying = () => ana.wire.send('PUT', `/private/copy?partNumber=1&uploadId=${id}`, { headers })
  const start = () => startUpload(api().db, ana.user.id, config.blob.concurrentUploads)
  const slots = await Promise.all(Array.from({ length: config.blob.concurrentUploads }, start))
  t.like(await copying(), { status: 503, code: 'SlowDown' })
  await limiter.admit(counters, row.allow * config.rateLimitScale - 5)
  for (const { lease } of slots) await endSlotLease(api().db, lease!)
  t.is((await copying()).status, 200)
  const refused = await copying()
  t.deepEqual([refused.status, refused.code], [503, 'SlowDown'])
  t.true(Number(refused.headers['retry-after']) > 10, refused.headers['retry-after'])
})

test('an empty source is an empty part', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  t.is((await copy(ana, id, 1, 'private/empty')).CopyPartResult?.ETag, md5(Buffer.alloc(0)))
  t.is(await refusal(copy(ana, id, 2, 'private/empty', { CopySourceRange: 'bytes=0-0' })), 'InvalidArgument')
  await completed(ana, 'copy', id, [1])
  t.is((await contentOf(ana, 'copy')).length, 0)
})

test('a range must have both ends, within the source', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  for (const CopySourceRange of [
    'bytes=0-11',
    'bytes=5-4',
    'bytes=5-',
    'bytes=-5',
    '0-5',
    'bytes=0-1,3-4',
    'bytes=a-b',
  ])
    t.is(await refusal(copy(ana, id, 1, small, { CopySourceRange })), 'InvalidArgument', CopySourceRange)
  await t.notThrowsAsync(copy(ana, id, 1, small, { CopySourceRange: 'bytes=0-10' }))
})

test('conditions are evaluated against the source', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy')
  const tag = md5(Buffer.from('hello world'))
  const [past, future] = [new Date('2000-01-01'), new Date('2100-01-01')]
  const met: Partial<UploadPartCopyCommandInput>[] = [
    { CopySourceIfMatch: tag },
    { CopySourceIfNoneMatch: '"other"' },
    { CopySourceIfModifiedSince: past },
    { CopySourceIfUnmodifiedSince: future },
    { CopySourceIfMatch: tag, CopySourceIfUnmodifiedSince: past },
  ]
  const unmet: Partial<UploadPartCopyCommandInput>[] = [
    { CopySourceIfMatch: '"other"' },
    { CopySourceIfNoneMatch: tag },
    { CopySourceIfModifiedSince: future },
    { CopySourceIfUnmodifiedSince: past },
    { CopySourceIfNoneMatch: tag, CopySourceIfModifiedSince: past },
  ]
  for (const more of unmet)
    t.is(await refusal(copy(ana, id, 1, small, more)), 'PreconditionFailed', Object.keys(more).join())
  for (const more of met) await t.notThrowsAsync(copy(ana, id, 1, small, more), Object.keys(more).join())
})

test('a copied part has the checksum that the upload announced', async t => {
  const ana = await withSources()
  const id = await opened(ana, 'copy', { ChecksumAlgorithm: 'CRC32C', ChecksumType: 'FULL_OBJECT' })
  const sum = checksum('CRC32C')
  sum.update(Buffer.from('hello world'))
  const expected = sum.digest().toString('base64')
  t.is((await copy(ana, id, 1, small)).CopyPartResult?.ChecksumCRC32C, expected)
  t.is((await completed(ana, 'copy', id, [1])).ChecksumCRC32C, expected)
})

test('a missing source, and one with a malformed name, are refused', async t => {
  const [ana, ben] = [await withSources(), await s3Account(api())]
  const id = await opened(ana, 'copy')
  const bens = await opened(ben, 'copy')
  t.is(await refusal(copy(ben, bens, 1, small)), 'NoSuchKey')
  const cases: Record<string, string[]> = {
    NoSuchKey: ['private/missing', 'public/large'],
    NoSuchBucket: ['unknown/large'],
    NoSuchVersion: ['private/large?versionId=1'],
    InvalidArgument: ['private', 'private/', '/', 'private/%zz', 'private/a%00b'],
  }
  for (const [code, sources] of Object.entries(cases))
    for (const source of sources) t.is(await refusal(copy(ana, id, 1, source)), code, source)
  t.is(await refusal(copy(ana, '0'.repeat(32), 1, small)), 'NoSuchUpload')
  t.deepEqual(await segmentsOf(id), [])
})

test('a write-only key cannot copy, and a key limited to prefixes copies within them', async t => {
  const ana = await withSources()
  await ana.send(new PutObjectCommand({ Bucket, Key: 'mine/a', Body: 'a' }))
  const limited = await api().makeKey(ana.user, { scopes: ['blob:read', 'blob:write'], prefixes: ['mine/'] })
  const actor = await s3Account(api(), { user: ana.user, key: limited.key })
  const id = await opened(actor, 'mine/copy')
  const within = (CopySource: string) =>
    actor.send(new UploadPartCopyCommand({ Bucket, Key: 'mine/copy', UploadId: id, PartNumber: 1, CopySource }))
  t.is(await refusal(within('private/large')), 'AccessDenied')
  await t.notThrowsAsync(within('private/mine/a'))
})
