import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { s3Of } from '../../../kit/s3/sdk.ts'
import { answerOf, elementOf, objectPath, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const odd = [
  'a',
  'a/b',
  'a/b/',
  'a/',
  'd//x',
  'd/../x',
  'd/./x',
  '../x',
  './x',
  '/x',
  '//',
  's'.repeat(300),
  `${'t'.repeat(300)}/${'u'.repeat(300)}`,
  'é☃🐎',
  'e\u0301',
  ' leading and trailing ',
  'plus+plus',
  '100%',
  '%41',
  '%2F',
  '%252F',
  'a?b#c&d=e',
  'back\\slash',
  `quotes"'\`<>`,
  "!'()*~-._",
  'tab\tline\nreturn\r',
  '\u0001\u007f\u0085\u200b\u202e\ufeff',
  'pub',
  '__proto__',
  'constructor',
  'key?versionId=x',
]

test('every key names a separate object, on every surface', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const bodies = new Map(odd.map(key => [key, randomBytes(8)]))
  for (const [key, body] of bodies) {
    const put = await wire.send('PUT', objectPath('public', key), { body })
    t.is(put.status, 200, `${JSON.stringify(key)} ${put.text}`)
  }
  t.deepEqual((await api().db('objects').where({ owner_id: ana.id }).pluck('key')).sort(), odd.toSorted())
  for (const [key, body] of bodies) {
    const what = JSON.stringify(key)
    t.true((await wire.send('GET', objectPath('public', key))).bytes.equals(body), what)
    const id = `pub/${ana.id}/${key}`
    const info = await api()
      .blobAs(ana)
      .get(`/v1/objects/info?object=${encodeURIComponent(id)}`)
    t.is(info.body.response?.id, id, what)
    const path = objectPath('pub', `${ana.id}/${key}`)
    const { hostname, port } = new URL(api().publicUrl)
    const open = await answerOf(request({ hostname, port, path, agent: false }).end())
    t.true(open.bytes.equals(body), what)
  }
  for (const key of odd) t.is((await wire.send('DELETE', objectPath('public', key))).status, 204)
  t.deepEqual(await api().db('objects').where({ owner_id: ana.id }), [])
})

test('the AWS SDK accesses unusual keys', async t => {
  const ana = await api().makeUser()
  const { client, send } = await s3Of(api(), ana)
  for (const Key of odd) {
    await send(new PutObjectCommand({ Bucket: 'private', Key, Body: Key }))
    const { Body } = await send(new GetObjectCommand({ Bucket: 'private', Key }))
    t.is(await Body?.transformToString(), Key, JSON.stringify(Key))
  }
  t.deepEqual((await api().db('objects').where({ owner_id: ana.id }).pluck('key')).sort(), odd.toSorted())
  client.destroy()
})

test('a key of more than 1024 bytes is refused before the body is read', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const longest of ['x'.repeat(1024), 'é'.repeat(512)])
    t.is((await wire.send('PUT', objectPath('private', longest), { body: 'x' })).status, 200)
  for (const long of ['x'.repeat(1025), `x${'é'.repeat(512)}`]) {
    const sending = wire.open('PUT', objectPath('private', long), { length: 1_000_000 })
    sending.flushHeaders()
    const refused = await answerOf(sending)
    t.deepEqual([refused.status, refused.code], [400, 'KeyTooLongError'])
    t.deepEqual([elementOf(refused, 'Size'), elementOf(refused, 'MaxSizeAllowed')], ['1025', '1024'])
    sending.destroy()
  }
})

test('an address with an invalid key is refused', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const path of ['/private/%00', '/private/a%00b', '/private/%ff', '/private/%zz', '/private/%4'])
    t.is((await wire.raw('GET', path, {})).code, 'InvalidArgument', path)
})
