import { createHash } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  ListPartsCommand,
} from '@aws-sdk/client-s3'
import test from 'ava'
import { checksum } from '../../../../lib/checksums.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { completed, opened, sent } from '../../../kit/s3/parts.ts'
import { storedFor } from '../../../kit/s3/remains.ts'
import { objectPath } from '../../../kit/s3/wire.ts'

const api = testApi()

const md5 = (text: string) => createHash('md5').update(text).digest('base64')
const crc32 = (text: string) => {
  const sum = checksum('CRC32')
  sum.update(Buffer.from(text))
  return sum.digest().toString('base64')
}
const partPath = (Key: string, uploadId: string, part: number | string) =>
  `${objectPath('private', Key)}?partNumber=${part}&uploadId=${uploadId}`

test('headers, tags and metadata of the creation become the object’s', async t => {
  const ana = await s3Account(api())
  const Key = 'films/one.bin'
  const UploadId = await opened(ana, Key, {
    ContentType: 'video/x-own',
    CacheControl: 'max-age=5',
    ContentDisposition: 'inline; filename="x"',
    ContentEncoding: 'gzip',
    ContentLanguage: 'de',
    Metadata: { note: 'größer' },
    Tagging: 'a=1&b=2',
  })
  await sent(ana, Key, UploadId, 1, 'hello')
  await completed(ana, Key, UploadId, [1])
  const got = await ana.send(new GetObjectCommand({ Bucket: 'private', Key }))
  t.is(await got.Body?.transformToString(), 'hello')
  t.like(got, {
    ContentType: 'video/x-own',
    CacheControl: 'max-age=5',
    ContentDisposition: 'inline; filename="x"',
    ContentEncoding: 'gzip',
    ContentLanguage: 'de',
    TagCount: 2,
  })
  t.is(Buffer.from(got.Metadata!.note!.match(/\?B\?(.*)\?=/)![1]!, 'base64').toString(), 'größer')
  const { TagSet } = await ana.send(new GetObjectTaggingCommand({ Bucket: 'private', Key }))
  t.deepEqual(TagSet, [
    { Key: 'a', Value: '1' },
    { Key: 'b', Value: '2' },
  ])
})

test('an upload is created with a checksum algorithm and a type that match, or refused', async t => {
  const ana = await s3Account(api())
  const create = (headers: Record<string, string>) => ana.wire.send('POST', '/private/x?uploads', { headers })
  const cases: [algorithm: string, type: string | undefined, expected: string][] = [
    ['CRC32', undefined, 'COMPOSITE'],
    ['crc32c', 'full_object', 'FULL_OBJECT'],
    ['CRC64NVME', undefined, 'FULL_OBJECT'],
    ['SHA1', undefined, 'COMPOSITE'],
    ['SHA256', 'COMPOSITE', 'COMPOSITE'],
    ['SHA256', 'FULL_OBJECT', 'InvalidRequest'],
    ['SHA1', 'FULL_OBJECT', 'InvalidRequest'],
    ['CRC64NVME', 'COMPOSITE', 'InvalidRequest'],
    ['CRC32', 'HALF', 'InvalidRequest'],
    ['XXHASH64', undefined, 'InvalidRequest'],
    ['', undefined, 'InvalidRequest'],
  ]
  for (const [algorithm, type, expected] of cases) {
    const headers = { 'x-amz-checksum-algorithm': algorithm, ...(type && { 'x-amz-checksum-type': type }) }
    const answer = await create(headers)
    t.is(answer.code ?? answer.headers['x-amz-checksum-type'], expected, `${algorithm} ${type}`)
  }
  t.is((await create({ 'x-amz-checksum-type': 'COMPOSITE' })).code, 'InvalidRequest')
  t.is((await create({ 'x-amz-storage-class': 'GLACIER' })).code, 'InvalidStorageClass')
  t.is((await create({ 'x-amz-acl': 'public-read' })).code, 'AccessControlListNotSupported')
  t.is((await create({ 'x-amz-tagging': 'a=1&a=2' })).code, 'InvalidTag')
  t.is((await ana.wire.send('POST', '/legacy/x?uploads')).code, 'AccessDenied')
  t.is((await ana.wire.send('POST', '/unknown/x?uploads')).code, 'NoSuchBucket')
})

test('a part has a number from 1 to 10,000', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'numbers')
  for (const part of ['0', '10001', '-1', '1.5', 'one', ''])
    t.is((await ana.wire.send('PUT', partPath('numbers', id, part), { body: 'x' })).code, 'InvalidArgument', part)
  for (const part of [1, 10_000])
    t.is((await ana.wire.send('PUT', partPath('numbers', id, part), { body: 'x' })).status, 200)
  const { Parts } = await ana.send(new ListPartsCommand({ Bucket: 'private', Key: 'numbers', UploadId: id }))
  t.deepEqual(
    Parts?.map(part => part.PartNumber),
    [1, 10_000],
  )
})

test('a part that is sent again replaces the earlier one, whose segment is released', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'again')
  await sent(ana, 'again', id, 1, 'first')
  const refs = () =>
    api().db('segments as s').join('upload_parts as p', 'p.segment_id', 's.id').where({ upload_id: id })
  const [before] = await refs()
  const { ETag } = await sent(ana, 'again', id, 1, 'second')
  const [row] = await api().db('segments').where({ id: before.segment_id })
  t.true(row === undefined || row.refs === 0)
  await completed(ana, 'again', id, [{ PartNumber: 1, ETag }])
  const got = await ana.send(new GetObjectCommand({ Bucket: 'private', Key: 'again' }))
  t.is(await got.Body?.transformToString(), 'second')
})

test('of concurrent versions of one part one is stored, whole', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'twice')
  const texts = Array.from({ length: 6 }, (_, n) => String(n).repeat(300_000))
  const answers = await Promise.all(texts.map(text => sent(ana, 'twice', id, 1, text)))
  const [part] = await api().db('upload_parts').where({ upload_id: id })
  const at = answers.findIndex(({ ETag }) => ETag === `"${part.md5}"`)
  await completed(ana, 'twice', id, [{ PartNumber: 1, ETag: answers[at]!.ETag }])
  const got = await ana.send(new GetObjectCommand({ Bucket: 'private', Key: 'twice' }))
  t.is(await got.Body?.transformToString(), texts[at])
})

test('a checksum in a header or in a trailer is verified, listed and returned', async t => {
  const ana = await s3Account(api())
  const UploadId = await opened(ana, 'sums', { ChecksumAlgorithm: 'CRC32' })
  const headers = { 'x-amz-checksum-crc32': crc32('one') }
  const one = await ana.wire.send('PUT', partPath('sums', UploadId, 1), { body: 'one', headers })
  t.is(one.headers['x-amz-checksum-crc32'], crc32('one'))
  for (const signed of [true, false]) {
    const trailer = { name: 'x-amz-checksum-crc32', value: crc32('two') }
    const two = await ana.wire.sendFramed(partPath('sums', UploadId, signed ? 2 : 3), 'two', {
      signed,
      size: 2,
      trailer,
    })
    t.is(two.headers['x-amz-checksum-crc32'], crc32('two'), two.text)
  }
  const four = await ana.wire.send('PUT', partPath('sums', UploadId, 4), { body: 'four' })
  t.is(four.headers['x-amz-checksum-crc32'], crc32('four'), 'calculated, as the upload announced it')
  const { Parts, ChecksumAlgorithm, ChecksumType } = await ana.send(
    new ListPartsCommand({ Bucket: 'private', Key: 'sums', UploadId }),
  )
  t.is(`${ChecksumAlgorithm} ${ChecksumType}`, 'CRC32 COMPOSITE')
  t.deepEqual(
    Parts?.map(part => part.ChecksumCRC32),
    ['one', 'two', 'two', 'four'].map(crc32),
  )
})

// Serial, because it counts all stored files.
test.serial('a part with a wrong checksum, MD5 or SHA-256 is refused, and leaves nothing', async t => {
  const ana = await s3Account(api())
  const [plain, summed] = [await opened(ana, 'w'), await opened(ana, 'w', { ChecksumAlgorithm: 'SHA256' })]
  const before = await storedFor(api(), ana.user)
  const put = (id: string, headers: Record<string, string>, payload?: string) =>
    ana.wire.send('PUT', partPath('w', id, 1), { body: 'hello', headers, payload })
  const trailer = { name: 'x-amz-checksum-crc32', value: crc32('other') }
  const cases = {
    BadDigest: [
      put(plain, { 'x-amz-checksum-crc32': crc32('other') }),
      put(plain, { 'content-md5': md5('other') }),
      ana.wire.sendFramed(partPath('w', plain, 1), 'hello', { signed: true, trailer }),
      ana.wire.sendFramed(partPath('w', plain, 1), 'hello', { signed: false, trailer }),
    ],
    InvalidDigest: [put(plain, { 'content-md5': 'nonsense' })],
    InvalidRequest: [
      put(summed, { 'x-amz-checksum-crc32': crc32('hello') }),
      put(plain, { 'x-amz-checksum-crc32': 'short' }),
      put(plain, { 'x-amz-checksum-xxhash64': 'AAAAAAAAAAA=' }),
    ],
    XAmzContentSHA256Mismatch: [put(plain, {}, 'a'.repeat(64))],
  }
  for (const [code, answers] of Object.entries(cases))
    for (const [n, answer] of (await Promise.all(answers)).entries()) t.is(answer.code, code, `${code} ${n}`)
  t.deepEqual(await storedFor(api(), ana.user), before)
  t.deepEqual(await api().db('upload_parts').whereIn('upload_id', [plain, summed]), [])
})

test('an upload that is unknown, ended, of another account, key or bucket accepts no part', async t => {
  const [ana, ben] = [await s3Account(api()), await s3Account(api())]
  const own = await opened(ana, 'own')
  const ended = await opened(ana, 'own')
  await ana.send(new AbortMultipartUploadCommand({ Bucket: 'private', Key: 'own', UploadId: ended }))
  const put = async ({ wire }: S3Account, id: string, path = '/private/own') => {
    const answers = [
      await wire.send('PUT', `${path}?partNumber=1&uploadId=${id}`, { body: 'x' }),
      await wire.send('GET', `${path}?uploadId=${id}`),
      await wire.send('DELETE', `${path}?uploadId=${id}`),
    ]
    return [...new Set(answers.map(({ code, status }) => code ?? status))]
  }
  for (const id of ['0'.repeat(32), 'nonsense', '', ended]) t.deepEqual(await put(ana, id), ['NoSuchUpload'], id)
  t.deepEqual(await put(ben, own), ['NoSuchUpload'], 'another account')
  t.deepEqual(await put(ana, own, '/private/other'), ['NoSuchUpload'], 'another key')
  t.deepEqual(await put(ana, own, '/public/own'), ['NoSuchUpload'], 'another bucket')
  t.is((await ana.wire.send('PUT', partPath('own', own, 1), { body: 'x' })).status, 200)
})
