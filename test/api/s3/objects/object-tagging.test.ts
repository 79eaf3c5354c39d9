import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'
import { type WireAnswer, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const documentOf = (tags: Record<string, string>) =>
  `<Tagging><TagSet>${Object.entries(tags)
    .map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`)
    .join('')}</TagSet></Tagging>`
const tagsOf = ({ text }: WireAnswer) =>
  Object.fromEntries(
    [...text.matchAll(/<Key>(.*?)<\/Key><Value>(.*?)<\/Value>/g)].map(([, key, value]) => [key, value]),
  )

async function withObject(headers: Record<string, string> = {}) {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const put = await wire.send('PUT', '/private/k', { body: 'x', headers })
  const tag = (document: string) => wire.send('PUT', '/private/k?tagging', { body: document })
  return { ana, wire, put, tag, tags: async () => tagsOf(await wire.send('GET', '/private/k?tagging')) }
}

test('tags are those of the last write, and changing them does not change the content', async t => {
  const { ana, wire, tag, tags } = await withObject({ 'x-amz-tagging': 'a=1&b%20c=%C3%A9&empty=' })
  const row = () => api().db('objects').where({ owner_id: ana.id }).first('generation', 'created_at', 'etag')
  const before = await row()
  t.deepEqual(await tags(), { a: '1', 'b c': 'é', empty: '' })
  t.is((await wire.send('HEAD', '/private/k')).headers['x-amz-tagging-count'], '3')
  t.like(await tag(documentOf({ z: ' y ', 'é&amp;': '☃' })), { status: 200, text: '' })
  t.deepEqual(await tags(), { z: ' y ', 'é&amp;': '☃' })
  t.like(await wire.send('DELETE', '/private/k?tagging'), { status: 204 })
  t.deepEqual(await tags(), {})
  t.is((await wire.send('HEAD', '/private/k')).headers['x-amz-tagging-count'], undefined)
  t.deepEqual(await row(), before)
})

test('an object of the Blob API can be tagged, and nothing else of it changes', async t => {
  const { ana, wire } = await withObject()
  const made = await madeObject(api(), ana, { key: 'blob', metadata: { a: 'b' } })
  t.is((await wire.send('PUT', '/private/blob?tagging', { body: documentOf({ a: 'b' }) })).status, 200)
  t.deepEqual(tagsOf(await wire.send('GET', '/private/blob?tagging')), { a: 'b' })
  const got = await wire.send('GET', '/private/blob')
  t.true(got.bytes.equals(made.bytes))
  t.is(got.headers['x-amz-meta-a'], 'b')
})

test('an object may have up to ten tags, with the lengths that S3 allows', async t => {
  const ten = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`k${n}`, 'v']))
  const { tag, tags } = await withObject()
  const longest = { ['k'.repeat(128)]: 'v'.repeat(256) }
  for (const allowed of [ten, longest, { a: '' }]) {
    t.is((await tag(documentOf(allowed))).status, 200)
    t.deepEqual(await tags(), allowed)
  }
  for (const refused of [
    documentOf({ ...ten, another: 'v' }),
    documentOf({ ['k'.repeat(129)]: 'v' }),
    documentOf({ k: 'v'.repeat(257) }),
    documentOf({ '': 'v' }),
    '<Tagging><TagSet><Tag><Key>a</Key></Tag><Tag><Key>a</Key></Tag></TagSet></Tagging>',
  ])
    t.is((await tag(refused)).code, 'InvalidTag', refused)
  for (const document of ['', '<Tagging/>', '<TagSet/>']) t.is((await tag(document)).code, 'MalformedXML', document)
  t.deepEqual(await tags(), { a: '' })
  for (const header of ['a=1&a=2', '=x', `${'k'.repeat(129)}=v`, Object.keys({ ...ten, x: '' }).join('&'), 'a=%00'])
    t.is((await withObject({ 'x-amz-tagging': header })).put.code, 'InvalidTag', header)
})

test('the tags of a missing object are NoSuchKey', async t => {
  const { wire } = await withObject()
  for (const [method, body] of [
    ['GET', ''],
    ['PUT', documentOf({ a: 'b' })],
    ['DELETE', ''],
  ] as const)
    t.like(await wire.send(method, '/private/none?tagging', { body }), { status: 404, code: 'NoSuchKey' }, method)
})
