import { AbortMultipartUploadCommand, CreateMultipartUploadCommand, UploadPartCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { s3Limits } from '../../../../policy/s3/s3-limits.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { refusal, s3Account } from '../../../kit/s3/account.ts'
import { opened, sent } from '../../../kit/s3/parts.ts'
import { elementOf, objectPath } from '../../../kit/s3/wire.ts'

const api = testApi()

const partPath = (Key: string, uploadId: string, part: number) =>
  `${objectPath('private', Key)}?partNumber=${part}&uploadId=${uploadId}`

test('uploads of the Blob API and of S3 are separate', async t => {
  const ana = await s3Account(api())
  const blob = api().blobAs(ana.user)
  const id = await opened(ana, 'mine.bin')
  const init = await blob.post(
    '/v1/objects/chunked',
    JSON.stringify({ name: 'theirs', extension: 'bin', private: true }),
    {
      'content-type': 'application/json',
    },
  )
  const rows = await api().db('uploads').where({ owner_id: ana.user.id }).orderBy('wire')
  t.deepEqual(
    rows.map(row => row.wire),
    ['blob', 's3'],
    init.text,
  )
  const [theirs] = rows
  const part = await ana.wire.send('PUT', partPath(theirs.key, theirs.id, 1), { body: 'x' })
  t.is(part.code, 'NoSuchUpload')
  const listed = await ana.wire.send('GET', '/private?uploads')
  t.is(elementOf(listed, 'UploadId'), id)
  t.false(listed.text.includes(theirs.id))
  const open = await blob.get('/v1/objects/chunked/open')
  t.true(open.text.includes(theirs.id), open.text)
  t.false(open.text.includes(id))
})

test('an account may have up to 1000 open uploads, and another when one of them ends', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'limit')
  await api().db.raw(
    `insert into uploads (id, owner_id, wire, bucket, key, content_type, max_parts, max_bytes)
     select md5(n::text || ?), ?, 's3', 'private', 'seeded', 'text/plain', 10, 10 from generate_series(2, ?::integer) n`,
    [ana.user.id, ana.user.id, s3Limits.openUploads],
  )
  const create = () => ana.send(new CreateMultipartUploadCommand({ Bucket: 'private', Key: 'limit' }))
  t.is(await refusal(create()), 'SlowDown')
  await ana.send(new AbortMultipartUploadCommand({ Bucket: 'private', Key: 'limit', UploadId: id }))
  await t.notThrowsAsync(create())
  t.is(await refusal(create()), 'SlowDown')
})

test('parts of open uploads count against the storage of the account until they are aborted', async t => {
  const ana = await s3Account(api(), { user: await api().makeUser({ plan: 'hobby-1' }) })
  const id = await opened(ana, 'full')
  await sent(ana, 'full', id, 1, 'x')
  await api().db('upload_parts').where({ upload_id: id }).update({ size: 1e12 })
  const other = await opened(ana, 'other')
  const put = (upload: string, key: string, part: number) =>
    ana.send(new UploadPartCommand({ Bucket: 'private', Key: key, UploadId: upload, PartNumber: part, Body: 'more' }))
  t.is(await refusal(put(other, 'other', 1)), 'QuotaExceeded')
  t.is(await refusal(put(id, 'full', 2)), 'QuotaExceeded')
  await t.notThrowsAsync(put(id, 'full', 1), 'the part itself sent again')
  await t.notThrowsAsync(put(other, 'other', 1))
  await api().db('uploads').where({ id: other }).update({ max_bytes: 7 })
  t.is(await refusal(put(other, 'other', 2)), 'EntityTooLarge', 'the upload itself has a limit too')
})
