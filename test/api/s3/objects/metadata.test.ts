import { HeadObjectCommand, PutObjectCommand, type PutObjectCommandInput } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { s3Of } from '../../../kit/s3/sdk.ts'
import { elementOf, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
/** A header as its bytes, each a character. */
const bytesOf = (text: string) => Buffer.from(text).toString('latin1')
const word = (text: string) => `=?UTF-8?B?${Buffer.from(text).toString('base64')}?=`

const written = async (headers: Record<string, string>) => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const put = await wire.send('PUT', '/private/k', { body: 'x', headers })
  const row = await api().db('objects').where({ owner_id: ana.id }).first()
  return { put, row, head: (await wire.send('HEAD', '/private/k')).headers }
}

test('metadata is stored as text, in whatever encoding it was sent, and returned in ASCII', async t => {
  for (const [sent, text, shown] of [
    ['plain text; a="b"', 'plain text; a="b"', 'plain text; a="b"'],
    [bytesOf('naïve ☃'), 'naïve ☃', word('naïve ☃')],
    ['caf\xe9', 'café', word('café')],
    [word('🐎 horse'), '🐎 horse', word('🐎 horse')],
    ['=?utf-8?q?caf=C3=A9_x?=', 'café x', word('café x')],
    [`${word('a')} ${word('é')}`, 'aé', word('aé')],
    ['=?iso-8859-1?q?=E9?=', '=?iso-8859-1?q?=E9?=', '=?iso-8859-1?q?=E9?='],
    [word('a\r\nX-Own: 1'), 'a\r\nX-Own: 1', word('a\r\nX-Own: 1')],
  ] as const) {
    const { put, row, head } = await written({ 'x-amz-meta-own-name': sent })
    t.is(put.status, 200, put.text)
    t.deepEqual(row.metadata, { 'own-name': text })
    t.is(head['x-amz-meta-own-name'], shown, sent)
    t.is(head['x-own'], undefined)
  }
})

test('metadata with NUL is InvalidArgument', async t => {
  const { put, row } = await written({ 'x-amz-meta-a': word('a\0b') })
  t.deepEqual([put.status, put.code, row], [400, 'InvalidArgument', undefined])
})

test('the AWS SDK reads the metadata that it wrote', async t => {
  const ana = await api().makeUser()
  const { client, send } = await s3Of(api(), ana)
  const Metadata = { plain: 'x', accents: 'é', proto: 'y' }
  await send(new PutObjectCommand({ Bucket: 'private', Key: 'k', Body: 'x', Metadata }))
  const { Metadata: got } = await send(new HeadObjectCommand({ Bucket: 'private', Key: 'k' }))
  t.deepEqual(got, { ...Metadata, accents: word('é') })
  client.destroy()
})

test('headers that a client moved into a presigned address are applied', async t => {
  const ana = await api().makeUser()
  const { client } = await s3Of(api(), ana)
  const wire = await wireOf(api(), ana)
  const signed = (input: Partial<PutObjectCommandInput>) =>
    getSignedUrl(client, new PutObjectCommand({ Bucket: 'private', Key: 'k', ...input }))
  const put = async (address: string) => fetch(address, { method: 'PUT', body: 'hello' })
  const address = await signed({ Metadata: { a: 'é b' }, Tagging: 'a=b', ContentType: 'text/css' })
  t.true(new URL(address).searchParams.has('x-amz-meta-a'))
  t.is((await put(address)).status, 200)
  const { headers } = await wire.send('HEAD', '/private/k')
  t.like(headers, { 'x-amz-meta-a': word('é b'), 'x-amz-tagging-count': '1' })
  for (const input of [
    { ACL: 'public-read' },
    { StorageClass: 'GLACIER' },
    { ServerSideEncryption: 'aws:kms' },
  ] as const)
    t.not((await put(await signed(input))).status, 200, JSON.stringify(input))
  const wrong = await wire.raw(
    'PUT',
    wire.presigned('PUT', '/private/k?x-amz-meta-a%0D%0Ab=c'),
    { 'content-length': '1' },
    Buffer.from('x'),
  )
  t.is(wrong.status, 200)
  t.deepEqual((await api().db('objects').where({ owner_id: ana.id }).first()).metadata, {}, 'no header has such a name')
  client.destroy()
})

test('metadata may have 2 KiB, names and values together', async t => {
  const most = { 'x-amz-meta-abc': 'x'.repeat(1000), 'x-amz-meta-de': 'y'.repeat(2048 - 1000 - 5) }
  t.is((await written(most)).put.status, 200)
  const { put, row } = await written({ ...most, 'x-amz-meta-de': 'y'.repeat(2048 - 1000 - 4) })
  t.deepEqual([put.status, put.code, row], [400, 'MetadataTooLarge', undefined])
  const wide = await written({ 'x-amz-meta-a': bytesOf('é'.repeat(1024)) })
  t.is(wide.put.code, 'MetadataTooLarge', 'bytes are counted')
})

test('all headers that are stored have 4 KiB together, on both ways to write, and end with their upload', async t => {
  const most = {
    'x-amz-meta-a': 'x'.repeat(2000),
    'content-language': 'd'.repeat(1000),
    'cache-control': 'c'.repeat(1000),
  }
  t.is((await written(most)).put.status, 200)
  const more = { ...most, 'content-language': 'd'.repeat(1100) }
  t.is((await written(more)).put.code, 'MetadataTooLarge')
  const user = await api().makeUser()
  const wire = await wireOf(api(), user)
  t.is((await wire.send('POST', '/private/large?uploads', { headers: more })).code, 'MetadataTooLarge')
  const id = elementOf(await wire.send('POST', '/private/large?uploads', { headers: most }), 'UploadId')
  await wire.send('DELETE', `/private/large?uploadId=${id}`)
  const row = await api().db('uploads').where({ owner_id: user.id }).first()
  t.like(row, { state: 'aborted', content_type: '', cache_control: null, metadata: {}, s3: null })
})

test('content headers are returned as they were sent', async t => {
  const own = {
    'cache-control': 'public, max-age=5, stale-while-revalidate=7',
    'content-disposition': `attachment; filename="x.pdf"; filename*=UTF-8''%e2%98%83.pdf`,
    'content-encoding': 'gzip, br',
    'content-language': 'de-DE, en-CA',
    'content-type': 'application/PDF; own="a, b"',
    expires: 'Wed, 21 Oct 2026 07:28:00 GMT',
  }
  const { head } = await written(own)
  t.like(head, { ...own, 'content-encoding': 'gzip,br' })
  t.is(head['cdn-cache-control'], 'no-store')
  const { head: plain } = await written({})
  t.is(plain['cache-control'], 'no-store')
  for (const name of ['expires', 'content-language', 'content-encoding', 'content-disposition'])
    t.is(plain[name], undefined, name)
  const { head: wide } = await written({ 'content-disposition': bytesOf('attachment; filename="☃.pdf"') })
  t.is(wide['content-disposition'], bytesOf('attachment; filename="☃.pdf"'))
})

test('aws-chunked is not stored as a content encoding', async t => {
  for (const [sent, stored] of [
    ['aws-chunked', undefined],
    ['gzip,aws-chunked', 'gzip'],
    ['AWS-Chunked, gzip', 'gzip'],
    ['aws-chunked, gzip , br', 'gzip,br'],
  ] as const)
    t.is((await written({ 'content-encoding': sent })).head['content-encoding'], stored, sent)
})
