import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { PutObjectCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { sent } from '../../../kit/actors/sent-files.ts'
import { s3Of } from '../../../kit/s3/sdk.ts'
import { objectPath, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const md5 = (bytes: string | Buffer) => createHash('md5').update(bytes).digest('hex')

test('an empty, a small and a large object are returned byte for byte', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const size of [0, 1, 16_384, 16_385, 3_000_000]) {
    const body = randomBytes(size)
    const put = await wire.send('PUT', `/private/of/${size}`, { body })
    t.deepEqual([put.status, put.text, put.headers.etag], [200, '', `"${md5(body)}"`], String(size))
    const got = await wire.send('GET', `/private/of/${size}`)
    t.true(got.bytes.equals(body), String(size))
    t.like(got.headers, { 'content-length': String(size), etag: `"${md5(body)}"`, 'accept-ranges': 'bytes' })
  }
  t.like(await readUsage(api().db, ana.id), { objects: 5, bytes: 1 + 16_384 + 16_385 + 3_000_000 })
})

test('an object that is written again is replaced as a whole', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const first = { 'x-amz-meta-a': '1', 'content-type': 'text/css', 'x-amz-tagging': 'a=1', 'content-language': 'de' }
  await wire.send('PUT', '/private/k', { body: 'one', headers: first })
  t.is((await wire.send('PUT', '/private/k', { body: 'other' })).status, 200)
  const { headers, text } = await wire.send('GET', '/private/k')
  t.is(text, 'other')
  t.is(headers['content-type'], 'application/octet-stream')
  for (const name of ['x-amz-meta-a', 'content-language', 'x-amz-tagging-count']) t.is(headers[name], undefined, name)
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 5 })
})

test('without a content type an object has that of its extension', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const [key, type] of [
    ['a.png', 'image/png'],
    ['a.tar.gz', 'application/gzip'],
    ['a.unknown', 'application/octet-stream'],
    ['folder/', 'application/octet-stream'],
  ] as const) {
    await wire.send('PUT', `/private/${key}`, { body: 'x' })
    t.is((await wire.send('HEAD', `/private/${key}`)).headers['content-type'], type, key)
  }
})

test('writes and deletions by S3 are visible in the Blob API immediately, and vice versa', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const blob = api().blobAs(ana)
  for (const [bucket, folder] of [
    ['public', 'pub'],
    ['private', 'prv'],
  ]) {
    const headers = { 'content-type': 'text/x-own', 'x-amz-meta-a': 'b', 'content-disposition': 'inline; filename="y"' }
    await wire.send('PUT', `/${bucket}/a/x.txt`, { body: 'hello', headers })
    const id = `${folder}/${ana.id}/a/x.txt`
    const info = async () => (await blob.get(`/v1/objects/info?object=${encodeURIComponent(id)}`)).body
    t.like((await info()).response, {
      id,
      size: 5,
      content_type: 'text/x-own',
      etag: md5('hello'),
      content_disposition: 'inline; filename="y"',
      metadata: { a: 'b' },
    })
    const { body } = await blob.get(`/v1/objects?private=${bucket === 'private'}`)
    t.deepEqual(
      body.response.objects.map((one: { id: string }) => one.id),
      [id],
    )
    t.is((await wire.send('DELETE', `/${bucket}/a/x.txt`)).status, 204)
    t.is((await info()).code, 'OBJECT_NOT_FOUND')
  }
  const { id } = await sent(api(), ana, { name: 'from-blob', private: 'true' }, { bytes: 'blob' })
  const key = id.split('/').slice(2).join('/')
  t.is((await wire.send('GET', objectPath('private', key))).text, 'blob')
  await blob.request('DELETE', '/v1/objects', { body: JSON.stringify({ object: id }) })
  t.is((await wire.send('GET', objectPath('private', key))).code, 'NoSuchKey')
})

test('the AWS SDK writes a text, bytes and a stream', async t => {
  const ana = await api().makeUser()
  const { client, send } = await s3Of(api(), ana)
  const wire = await wireOf(api(), ana)
  const bytes = randomBytes(200_000)
  const stream = Readable.from([bytes])
  const bodies = { text: 'hällo', bytes, stream }
  for (const [Key, Body] of Object.entries(bodies)) {
    const length = Key === 'stream' ? { ContentLength: bytes.length } : {}
    await send(new PutObjectCommand({ Bucket: 'private', Key, Body, ContentEncoding: 'gzip', ...length }))
    const got = await wire.send('GET', `/private/${Key}`)
    t.true(got.bytes.equals(Key === 'text' ? Buffer.from('hällo') : bytes), Key)
    t.is(got.headers['content-encoding'], 'gzip', 'without the framing of the request')
  }
  client.destroy()
})

test('unsupported headers and sub-resources are refused, and nothing is stored', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const [name, value, code] of [
    ['x-amz-acl', 'public-read', 'AccessControlListNotSupported'],
    ['x-amz-grant-read', 'id=1', 'AccessControlListNotSupported'],
    ['x-amz-storage-class', 'GLACIER', 'InvalidStorageClass'],
    ['x-amz-server-side-encryption', 'aws:kms', 'NotImplemented'],
    ['x-amz-server-side-encryption-customer-algorithm', 'AES256', 'NotImplemented'],
    ['x-amz-object-lock-mode', 'GOVERNANCE', 'NotImplemented'],
    ['x-amz-website-redirect-location', '/x', 'NotImplemented'],
    ['x-amz-write-offset-bytes', '0', 'NotImplemented'],
  ] as const)
    t.is((await wire.send('PUT', '/private/k', { body: 'x', headers: { [name]: value } })).code, code, name)
  t.is((await wire.send('PUT', '/public/k', { body: 'x', headers: { 'x-amz-acl': 'private' } })).status, 400)
  for (const query of ['retention', 'legal-hold', 'torrent', 'renameObject', 'restore'])
    t.is((await wire.send('PUT', `/private/k?${query}`, { body: 'x' })).code, 'NotImplemented', query)
  t.deepEqual(await api().db('objects').where({ owner_id: ana.id }), [])
  for (const [bucket, acl] of [
    ['private', 'private'],
    ['public', 'public-read'],
    ['public', 'bucket-owner-full-control'],
  ]) {
    const headers = { 'x-amz-acl': acl!, 'x-amz-storage-class': 'STANDARD' }
    t.is((await wire.send('PUT', `/${bucket}/k`, { body: 'x', headers })).status, 200, acl)
  }
})
