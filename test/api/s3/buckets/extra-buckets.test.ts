import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import test from 'ava'
import { MiB } from '../../../../lib/bytes.ts'
import type { Scope } from '../../../../policy/accounts/scopes.ts'
import { parseConfig } from '../../../../policy/config.ts'
import { s3Limits } from '../../../../policy/s3/s3-limits.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { elementsOf, refusal, type S3Account, s3Account } from '../../../kit/s3/account.ts'
import { completed, opened } from '../../../kit/s3/parts.ts'

const { blob } = parseConfig({ BERTH_MASTER_KEY: 'a'.repeat(64), S3_EXTRA_BUCKETS: 'on' }, '/')
const api = testApi({ config: { blob } })

const create = ({ send }: S3Account, Bucket: string) => send(new CreateBucketCommand({ Bucket }))
const remove = ({ send }: S3Account, Bucket: string) => send(new DeleteBucketCommand({ Bucket }))
const put = ({ send }: S3Account, Bucket: string, Key = 'a', Body: string | Buffer = 'x') =>
  send(new PutObjectCommand({ Bucket, Key, Body }))

test('an account creates and deletes extra buckets, whose names are its own', async t => {
  const [ana, ben] = [await s3Account(api()), await s3Account(api())]
  t.is((await create(ana, 'photos')).Location, '/photos')
  t.is(await refusal(create(ana, 'photos')), 'BucketAlreadyOwnedByYou')
  await put(ana, 'photos')
  t.deepEqual(elementsOf((await ana.wire.send('GET', '/')).text, 'Name'), ['legacy', 'photos', 'private', 'public'])
  t.is((await ben.wire.send('GET', '/photos')).code, 'NoSuchBucket')
  await t.notThrowsAsync(create(ben, 'photos'), 'names are those of an account')
  t.deepEqual((await ben.send(new ListObjectsV2Command({ Bucket: 'photos' }))).KeyCount, 0)
  t.is(await refusal(remove(ana, 'photos')), 'BucketNotEmpty')
  await ana.wire.send('DELETE', '/photos/a')
  await remove(ana, 'photos')
  t.is(await refusal(put(ana, 'photos')), 'NoSuchBucket')
  t.is(await refusal(remove(ana, 'photos')), 'NoSuchBucket')
  t.is((await ana.wire.send('DELETE', '/public')).code, 'AccessDenied')
})

test('a bucket with an open upload is not empty', async t => {
  const ana = await s3Account(api())
  await create(ana, 'films')
  const id = await opened(ana, 'a', { Bucket: 'films' })
  t.is(await refusal(remove(ana, 'films')), 'BucketNotEmpty')
  t.is((await ana.wire.send('DELETE', `/films/a?uploadId=${id}`)).status, 204)
  await t.notThrowsAsync(remove(ana, 'films'))
})

test('the name of a bucket must be valid in S3, and its document well-formed', async t => {
  const ana = await s3Account(api())
  for (const name of ['ab', 'Upper', 'a_b', '-ab', 'ab-', '.ab', 'a..b', '192.168.0.1', 'x'.repeat(64)])
    t.is((await ana.wire.send('PUT', `/${name}`)).code, 'InvalidBucketName', name)
  for (const name of ['abc', 'my.own-bucket', 'x'.repeat(63), '1.2.3', 'constructor', 'x-y'])
    t.is((await ana.wire.send('PUT', `/${name}`)).status, 200, name)
  const body = '<CreateBucketConfiguration><LocationConstraint>auto</LocationConstraint></CreateBucketConfiguration>'
  t.is((await ana.wire.send('PUT', '/with-a-body', { body })).status, 200)
  t.is((await ana.wire.send('PUT', '/wrong-body', { body: '<Other/>' })).code, 'MalformedXML')
  t.is((await ana.wire.send('GET', '/wrong-body')).code, 'NoSuchBucket')
  t.is((await ana.wire.send('GET', '/constructor?cors')).code, 'NoSuchCORSConfiguration')
})

test('extra buckets hold objects of every kind, separate from those of other buckets', async t => {
  const ana = await s3Account(api())
  await create(ana, 'own')
  await put(ana, 'own', 'page.html', 'mine')
  await put(ana, 'private', 'page.txt', 'other')
  await ana.wire.send('PUT', '/own/copy', { headers: { 'x-amz-copy-source': '/private/page.txt' } })
  const id = await opened(ana, 'parts', { Bucket: 'own' })
  const sentPart = await ana.wire.send('PUT', `/own/parts?partNumber=1&uploadId=${id}`, { body: 'part' })
  const listed = [{ PartNumber: 1, ETag: sentPart.headers.etag! }]
  await completed(ana, 'parts', id, listed, { Bucket: 'own' })
  const { Contents } = await ana.send(new ListObjectsV2Command({ Bucket: 'own' }))
  t.deepEqual(
    Contents?.map(({ Key }) => Key),
    ['copy', 'page.html', 'parts'],
  )
  const got = await ana.send(new GetObjectCommand({ Bucket: 'own', Key: 'copy' }))
  t.is(await got.Body?.transformToString(), 'other')
  const pages = await ana.send(new ListObjectsV2Command({ Bucket: 'own', MaxKeys: 1 }))
  const rest = await ana.send(
    new ListObjectsV2Command({ Bucket: 'own', ContinuationToken: pages.NextContinuationToken }),
  )
  t.deepEqual(
    rest.Contents?.map(({ Key }) => Key),
    ['page.html', 'parts'],
  )
})

test('the Blob API does not show extra buckets, but counts their objects', async t => {
  const ana = await s3Account(api(), { user: await api().makeUser({ plan: 'hobby-1' }) })
  const blobApi = api().blobAs(ana.user)
  await create(ana, 'hidden')
  await put(ana, 'hidden', 'secret-name', 'x'.repeat(1000))
  const list = await blobApi.get('/v1/objects')
  t.is(list.status, 200)
  t.false(list.text.includes('secret-name'))
  const stats = await blobApi.get('/v1/account/stats')
  t.is(stats.status, 200, stats.text)
  t.is(stats.body.response.usage.storage, 1000, stats.text)
  await api().db('blob_usage').insert({ owner_id: ana.user.id, objects: 1, bytes: 1e13 }).onConflict('owner_id').merge()
  t.is(await refusal(put(ana, 'hidden', 'more', Buffer.alloc(2 * MiB))), 'QuotaExceeded')
})

test('an account may have up to 100 extra buckets', async t => {
  const ana = await s3Account(api())
  await api().db.raw(
    `insert into s3_buckets (owner_id, name) select ?, 'seeded-' || n from generate_series(2, ?::integer) n`,
    [ana.user.id, s3Limits.extraBuckets],
  )
  const made = await Promise.all(['one-1', 'one-2', 'one-3'].map(name => ana.wire.send('PUT', `/${name}`)))
  t.deepEqual(made.map(({ status, code }) => code ?? status).sort(), [200, 'TooManyBuckets', 'TooManyBuckets'])
})

test('writes concurrent with the deletion of their bucket never leave an object in it', async t => {
  const ana = await s3Account(api())
  for (let round = 0; round < 24; round++) {
    const bucket = `race-${round}`
    await create(ana, bucket)
    const write = () =>
      round % 2 ? ana.wire.send('PUT', `/${bucket}/a`, { body: 'x' }) : ana.wire.send('POST', `/${bucket}/a?uploads`)
    const drop = () => ana.wire.send('DELETE', `/${bucket}`)
    const acts = round % 3 ? [write, drop, write] : [drop, write]
    const answers = await Promise.all(acts.map(act => act()))
    const dropped = answers[acts.indexOf(drop)]!
    const written = answers.filter((_, n) => acts[n] === write)
    for (const { status, code, text } of written) t.true(status === 200 || code === 'NoSuchBucket', text)
    t.true(dropped.status === 204 || dropped.code === 'BucketNotEmpty', dropped.text)
    const within = { owner_id: ana.user.id, bucket: `x-${bucket}` }
    const left = [
      ...(await api().db('objects').where(within)),
      ...(await api()
        .db('uploads')
        .where({ ...within, state: 'open' })),
    ]
    const exists = (await api().db('s3_buckets').where({ owner_id: ana.user.id, name: bucket })).length === 1
    t.is(exists, dropped.status !== 204)
    if (!exists) t.deepEqual(left, [])
  }
})

test('a key that is read-only, or limited to prefixes, cannot create or delete buckets', async t => {
  const ana = await s3Account(api())
  await create(ana, 'kept')
  const limits: { scopes: Scope[]; prefixes?: string[] }[] = [
    { scopes: ['blob:read'] },
    { scopes: ['blob:read', 'blob:write'], prefixes: ['mine/'] },
  ]
  for (const limit of limits) {
    const { key } = await api().makeKey(ana.user, limit)
    const limited = await s3Account(api(), { user: ana.user, key })
    t.is(await refusal(create(limited, 'another')), 'AccessDenied')
    t.is(await refusal(remove(limited, 'kept')), 'AccessDenied')
  }
  t.is((await ana.wire.send('HEAD', '/kept')).status, 200)
})
