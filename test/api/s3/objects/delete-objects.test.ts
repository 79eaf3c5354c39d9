import { createHash } from 'node:crypto'
import { DeleteObjectsCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { s3Of } from '../../../kit/s3/sdk.ts'
import { objectPath, type S3Wire, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const md5 = (text: string) => createHash('md5').update(text).digest('base64')
const escaped = (text: string) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;')
const documentOf = (keys: readonly string[], more = '') =>
  `<Delete>${more}${keys.map(key => `<Object><Key>${escaped(key)}</Key></Object>`).join('')}</Delete>`

function deleting(wire: S3Wire, document: string, headers: Record<string, string> = {}) {
  return wire.send('POST', '/private?delete', { body: document, headers: { 'content-md5': md5(document), ...headers } })
}

const keysOf = (text: string, element: string) =>
  [...text.matchAll(new RegExp(`<${element}><Key>([^<]*)</Key>`, 'g'))].map(([, key]) => key)

async function withKeys(keys: readonly string[]) {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const key of keys) await wire.send('PUT', objectPath('private', key), { body: 'x' })
  const left = () => api().db('objects').where({ owner_id: ana.id }).orderBy('key').pluck('key')
  return { ana, wire, left }
}

test('the deletion of an object can be repeated', async t => {
  const { ana, wire, left } = await withKeys(['a', 'a/b'])
  for (let n = 0; n < 2; n++) t.like(await wire.send('DELETE', '/private/a'), { status: 204, text: '' })
  t.deepEqual(await left(), ['a/b'])
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 1 })
  t.is((await wire.send('GET', '/private/a')).code, 'NoSuchKey')
})

test('DeleteObject with If-Match deletes only the matching object', async t => {
  const { wire, left } = await withKeys(['a'])
  const unless = await wire.send('DELETE', '/private/a', { headers: { 'if-match': '"x"' } })
  t.deepEqual([unless.status, unless.code], [412, 'PreconditionFailed'])
  t.deepEqual(await left(), ['a'])
  const { etag } = (await wire.send('HEAD', '/private/a')).headers
  for (let n = 0; n < 2; n++)
    t.is((await wire.send('DELETE', '/private/a', { headers: { 'if-match': etag! } })).status, 204)
  t.deepEqual(await left(), [])
})

test('unsupported conditions of a deletion are refused, not ignored', async t => {
  const { wire, left } = await withKeys(['a'])
  for (const name of ['x-amz-if-match-size', 'x-amz-if-match-last-modified-time'])
    t.is((await wire.send('DELETE', '/private/a', { headers: { [name]: '9' } })).code, 'NotImplemented', name)
  for (const condition of ['<ETag>x</ETag>', '<Size>9</Size>', '<LastModifiedTime>9</LastModifiedTime>']) {
    const document = `<Delete><Object><Key>a</Key>${condition}</Object></Delete>`
    t.is((await deleting(wire, document)).code, 'NotImplemented', condition)
  }
  t.deepEqual(await left(), ['a'])
})

test('several keys are deleted with one request; a missing one counts as deleted', async t => {
  const odd = [' a ', 'a&b<c>"', 'd//x', 'd/../x', 'é☃🐎', '0123', '1e5', 'line\u2028end', 'folder/']
  const { ana, wire, left } = await withKeys([...odd, 'kept'])
  const answer = await deleting(wire, documentOf([...odd, 'missing']))
  t.is(answer.status, 200)
  t.is(keysOf(answer.text, 'Deleted').length, odd.length + 1)
  t.true(answer.text.includes('<Key>a&amp;b&lt;c&gt;&quot;</Key>'))
  t.deepEqual(keysOf(answer.text, 'Error'), [])
  t.deepEqual(await left(), ['kept'])
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 1 })
})

test('a quiet deletion lists failures only', async t => {
  const { wire, left } = await withKeys(['a'])
  const long = 'x'.repeat(1025)
  const document = documentOf(['a', long], '<Quiet>true</Quiet>')
  const { text } = await deleting(wire, document)
  t.deepEqual(keysOf(text, 'Deleted'), [])
  t.regex(text, new RegExp(`<Error><Key>${long}</Key><Code>KeyTooLongError</Code><Message>[^<]+</Message></Error>`))
  t.deepEqual(await left(), [])
})

test('duplicates are deleted once', async t => {
  const { ana, wire } = await withKeys(['a', 'b'])
  const { text } = await deleting(wire, documentOf(['a', 'a', 'a']))
  t.deepEqual([...new Set(keysOf(text, 'Deleted'))], ['a'])
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 1 })
})

test('a request deletes up to 1000 keys, and none if it has more', async t => {
  const keys = Array.from({ length: 1001 }, (_, n) => `k${n}`)
  const { wire, left } = await withKeys(['k0', 'k1000'])
  const refused = await deleting(wire, documentOf(keys))
  t.deepEqual([refused.status, refused.code], [400, 'MalformedXML'])
  t.deepEqual(await left(), ['k0', 'k1000'])
  const { text } = await deleting(wire, documentOf(keys.slice(0, 1000)))
  t.is(keysOf(text, 'Deleted').length, 1000)
  t.deepEqual(await left(), ['k1000'])
})

test('malformed documents are refused', async t => {
  const { wire, left } = await withKeys(['a'])
  for (const document of [
    '',
    'a',
    '<Delete/>',
    '<Delete><Object/></Delete>',
    '<Delete><Object><Key></Key></Object></Delete>',
    '<Remove><Object><Key>a</Key></Object></Remove>',
    '<Delete><Object><Key>a</Key></Object>',
    '<!DOCTYPE a [<!ENTITY b "a">]><Delete><Object><Key>&b;</Key></Object></Delete>',
    documentOf(['a'], `<Own>${'x'.repeat(2 * 1024 ** 2)}</Own>`),
  ]) {
    const answer = await deleting(wire, document)
    t.deepEqual([answer.status, answer.code], [400, 'MalformedXML'], document.slice(0, 100))
  }
  t.deepEqual(await left(), ['a'])
  const versions = '<Delete><Object><Key>a</Key><VersionId>x</VersionId></Object></Delete>'
  t.regex((await deleting(wire, versions)).text, /<Error><Key>a<\/Key><Code>NoSuchVersion<\/Code>/)
  t.deepEqual(await left(), ['a'])
  await deleting(wire, versions.replace('>x<', '>null<'))
  t.deepEqual(await left(), [])
})

test('DeleteObjects requires a correct digest of its document', async t => {
  const { wire, left } = await withKeys(['a'])
  const document = documentOf(['a'])
  const unsigned = (headers: Record<string, string>) =>
    wire.send('POST', '/private?delete', { body: document, payload: 'UNSIGNED-PAYLOAD', headers })
  t.is((await unsigned({})).code, 'InvalidRequest')
  t.is((await unsigned({ 'x-amz-checksum-algorithm': 'CRC32' })).code, 'InvalidRequest')
  t.is((await unsigned({ 'content-md5': md5('other') })).code, 'BadDigest')
  t.is((await unsigned({ 'content-md5': 'x' })).code, 'InvalidDigest')
  t.is((await unsigned({ 'x-amz-checksum-crc32': 'AAAAAA==' })).code, 'BadDigest')
  const other = await wire.send('POST', '/private?delete', {
    body: document,
    sent: Buffer.from(document.replace('a', 'b')),
  })
  t.is(other.code, 'XAmzContentSHA256Mismatch')
  t.deepEqual(await left(), ['a'])
  t.is((await unsigned({ 'content-md5': md5(document) })).status, 200)
  t.deepEqual(await left(), [])
})

test('the AWS SDK deletes with a checksum in place of an MD5', async t => {
  const { ana, left } = await withKeys(['a'])
  const { client, send } = await s3Of(api(), ana)
  const { Deleted } = await send(
    new DeleteObjectsCommand({ Bucket: 'private', Delete: { Objects: [{ Key: 'a' }, { Key: 'é&' }] } }),
  )
  t.deepEqual(Deleted, [{ Key: 'a' }, { Key: 'é&' }])
  t.deepEqual(await left(), [])
  client.destroy()
})
