import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { s3Account } from '../../../kit/s3/account.ts'
import { completed, opened, sent } from '../../../kit/s3/parts.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()

const file = (content: string) => {
  const form = new FormData()
  form.append('file', new Blob([content]), 'a.txt')
  return form
}

test('metadata of the Blob API with a name that no header can have is counted, and the object stays readable', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const metadata = encodeURIComponent(JSON.stringify({ 'my key': 'x', größe: '1', plain: 'y' }))
  const upload = await api().blobAs(ana).post(`/v1/objects?name=a&private=true&metadata=${metadata}`, file('text'))
  const [, key] = /^prv\/\d+\/(.+)$/.exec(upload.body.response.id)!
  const got = await wire.send('GET', `/private/${key}`)
  t.deepEqual([got.status, got.text, got.headers['x-amz-meta-plain']], [200, 'text', 'y'])
  t.is(got.headers['x-amz-missing-meta'], '2')
})

test('the end that a rule gives counts from the completion of an upload in parts', async t => {
  const ana = await s3Account(api())
  const rules = JSON.stringify({ rules: [{ prefix: 'short/', expire: '1h' }] })
  t.is((await api().blobAs(ana.user).request('PUT', '/v1/account/settings', { body: rules })).status, 200)
  const id = await opened(ana, 'short/a')
  await sent(ana, 'short/a', id, 1, 'text')
  const ago = api().db.raw("now() - interval '2 hours'")
  const before = api().db.raw("now() - interval '1 hour'")
  await api().db('uploads').where({ id }).update({ created_at: ago, expires_at: before })
  await completed(ana, 'short/a', id, [1])
  const head = await ana.wire.send('HEAD', '/private/short/a')
  const [, date] = /expiry-date="([^"]+)"/.exec(String(head.headers['x-amz-expiration']))!
  const seconds = (Date.parse(date!) - Date.now()) / 1000
  t.true(seconds > 3000 && seconds <= 3600, `${seconds} seconds`)
})

test('a completion and a copy write their audit entry in the commit, once', async t => {
  const ana = await s3Account(api())
  const id = await opened(ana, 'a')
  await sent(ana, 'a', id, 1, 'text')
  await completed(ana, 'a', id, [1])
  await completed(ana, 'a', id, [{ PartNumber: 1, ETag: 'x' }])
  await ana.wire.send('PUT', '/private/b', { headers: { 'x-amz-copy-source': 'private/a' } })
  const entries = await api().db('audit').where({ actor: ana.user.id }).orderBy('id').pluck('action')
  t.deepEqual(entries, ['s3.CreateMultipartUpload', 's3.CompleteMultipartUpload', 's3.CopyObject'])
})

test('a copy cannot get another checksum than that of its source', async t => {
  const { wire } = await s3Account(api())
  await wire.send('PUT', '/private/a', { body: 'hello', headers: { 'x-amz-checksum-crc32': 'NhCmhg==' } })
  const copy = (algorithm: string) =>
    wire.send('PUT', '/private/b', {
      headers: { 'x-amz-copy-source': 'private/a', 'x-amz-checksum-algorithm': algorithm },
    })
  t.deepEqual([(await copy('CRC32')).status, (await copy('SHA256')).code], [200, 'NotImplemented'])
})

test('a request about an object that does not exist is NoSuchKey', async t => {
  const { wire } = await s3Account(api())
  for (const query of ['acl', 'retention', 'legal-hold', 'tagging'])
    t.is((await wire.send('GET', `/private/missing?${query}`)).code, 'NoSuchKey', query)
  t.is((await wire.send('PUT', '/private/missing?acl', { headers: { 'x-amz-acl': 'private' } })).code, 'NoSuchKey')
})
