import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { findObject } from '../../../../db/objects/objects.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { sent } from '../../../kit/actors/sent-files.ts'
import { put } from '../../../kit/objects/objects.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'

const api = testApi()
const day = 86_400_000
const long = new Date('2020-01-01')

const update = (user: TestUser, body: object): Promise<Answer> =>
  api()
    .blobAs(user)
    .request('PATCH', '/v1/objects', { body: JSON.stringify(body) })
const rowOf = (id: string) => findObject(api().db, objectName(id)!)

/** The object as if it had been written long ago. */
async function aged(id: string) {
  const { owner_id, key } = (await rowOf(id))!
  await api().db('objects').where({ owner_id, key }).update({ created_at: long })
  return (await rowOf(id))!
}

/** The one result of an update of one object. */
async function changed(user: TestUser, object: string, body: object) {
  const { status, body: answer } = await update(user, { object, ...body })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(answer)}`)
  return answer.response.results[0]
}

test('a change of visibility changes only the id, the address and the time of writing', async t => {
  const ana = await api().makeUser()
  const { id, url } = await sent(api(), ana, { name: 'a', prefix: 'p', metadata: '{"by":"ana"}' })
  const before = await aged(id)
  const hidden = `prv/${ana.id}/p/a.txt`
  t.deepEqual(await changed(ana, id, { private: true }), {
    object: id,
    ok: true,
    changed: true,
    id: hidden,
    private: true,
    url: null,
    size: 5,
    expires_at: null,
  })
  t.is(await rowOf(id), undefined)
  const after = (await rowOf(hidden))!
  t.like(after, {
    etag: before.etag,
    generation: before.generation,
    metadata: { by: 'ana' },
    original_name: 'file.txt',
  })
  t.not(after.birth, before.birth)
  t.true(after.created_at > long)
  t.like(await changed(ana, hidden, { private: true }), { ok: true, changed: false, id: hidden })
  t.deepEqual(await rowOf(hidden), after, 'what is so already is not written')
  t.like(await changed(ana, hidden, { private: false }), { id, url, changed: true })
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 5 })
})

test('an expiry is part of the id and can be added, changed and removed', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const later = await changed(ana, id, { expire: '30d' })
  t.true(later.changed)
  t.true(Math.abs(new Date(later.expires_at).getTime() - Date.now() - 30 * day) < 60_000)
  t.is(later.id, `pub/${ana.id}/a-ex${new Date(later.expires_at).getTime() / 1000}.txt`)
  const sooner = await changed(ana, later.id, { expire: '6h' })
  t.true(Math.abs(new Date(sooner.expires_at).getTime() - Date.now() - day / 4) < 60_000)
  t.like(await changed(ana, sooner.id, { expire: null }), { id, changed: true, expires_at: null })
  t.like(await changed(ana, id, { expire: null }), { id, changed: false })
})

test('headers and metadata keep the id; null removes them', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a', metadata: '{"a":"1","b":"2"}' })
  const before = await aged(id)
  const body = { cache_control: 'no-cache', disposition: 'attachment', metadata: { a: null, c: '3' } }
  t.like(await changed(ana, id, body), { ok: true, changed: false, id })
  const after = (await rowOf(id))!
  t.like(after, { cache_control: 'no-cache', content_disposition: 'attachment', metadata: { b: '2', c: '3' } })
  t.like(after, { birth: before.birth, etag: before.etag })
  t.true(after.created_at > long)
  await changed(ana, id, { cache_control: null, disposition: null, metadata: null })
  t.like(await rowOf(id), { cache_control: null, content_disposition: null, metadata: {} })
  await changed(ana, id, JSON.parse('{"metadata":{"__proto__":"kept"}}'))
  t.deepEqual(Object.keys((await rowOf(id))!.metadata), ['__proto__'])
})

test('metadata with characters that are no longer allowed stays and can be removed', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const { owner_id, key } = (await rowOf(id))!
  const earlier = { a: 'b\r\nc', 'd\ne': 'f' }
  await api()
    .db('objects')
    .where({ owner_id, key })
    .update({ metadata: JSON.stringify(earlier) })
  t.like(await changed(ana, id, { metadata: { g: 'h' } }), { ok: true })
  t.deepEqual((await rowOf(id))!.metadata, { ...earlier, g: 'h' })
  t.like(await changed(ana, id, { metadata: { a: null, 'd\ne': null } }), { ok: true })
  t.deepEqual((await rowOf(id))!.metadata, { g: 'h' })
})

test('metadata can be removed from an object to which S3 gave more than the Blob API allows', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const metadata = Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map(n => [`${n}`, 'x'.repeat(200)]))
  const { id } = await madeObject(api(), ana, { metadata })
  t.like(await changed(ana, id, { metadata: { 1: null } }), { ok: true })
  t.deepEqual(Object.keys((await rowOf(id))!.metadata), ['2', '3', '4', '5', '6', '7'])
  await api().db('users').where({ id: ana.id }).update({ plan: 'pro-12' })
  const { key } = await api().makeKey(ana, {})
  const pro = { ...ana, key }
  t.like(await changed(pro, id, { metadata: { 2: null, 8: 'y' } }), { ok: false, code: 'INVALID_OBJECT_METADATA' })
  t.like(await changed(pro, id, { metadata: { 2: null, 3: null, 4: null, 5: null, 6: null } }), { ok: true })
  t.like(await changed(pro, id, { metadata: { 8: 'y' } }), { ok: true })
})

test('all changes of one object are applied, or none', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a', metadata: '{"a":"1","b":"2","c":"3"}' })
  const many = { private: true, metadata: { d: '4', e: '5', f: '6' } }
  t.deepEqual(await changed(ana, id, many), { object: id, ok: false, code: 'INVALID_OBJECT_METADATA' })
  t.like(await rowOf(id), { metadata: { a: '1', b: '2', c: '3' } })
  t.like(await changed(ana, id, { metadata: { a: null, d: '4', e: '5', f: '6' } }), { ok: true })
  t.like(await changed(ana, id, { metadata: { b: 'x'.repeat(508) } }), { code: 'INVALID_OBJECT_METADATA' })
  const both = await changed(ana, id, { private: true, expire: '7', disposition: 'inline' })
  t.regex(both.id, new RegExp(`^prv/${ana.id}/a-ex\\d+\\.txt$`))
  t.like(await rowOf(both.id), { content_disposition: 'inline' })
})

test('several objects have one result each, in their order', async t => {
  const ana = await api().makeUser()
  const [a, b] = [await sent(api(), ana, { name: 'a' }), await sent(api(), ana, { name: 'b' })]
  await sent(api(), ana, { name: 'b', private: 'true' })
  const missing = `pub/${ana.id}/nothing`
  const objects = [missing, b.id, 'nonsense', a.id, a.id]
  const { body } = await update(ana, { objects, private: true })
  t.deepEqual(
    body.response.results.map((result: { object: string; code?: string }) => [result.object, result.code]),
    [
      [missing, 'OBJECT_NOT_FOUND'],
      [b.id, 'OBJECT_ALREADY_EXISTS'],
      ['nonsense', 'INVALID_OBJECT'],
      [a.id, undefined],
      [a.id, 'OBJECT_NOT_FOUND'],
    ],
  )
  t.truthy(await rowOf(b.id))
})

test('a legacy object changes its headers only together with its visibility', async t => {
  const ana = await api().makeUser()
  await put(api().db, { ownerId: ana.id, bucket: 'legacy', key: 'old/a.txt' }, 'old')
  const id = `${ana.id}/old/a.txt`
  for (const body of [{ cache_control: null }, { disposition: 'inline' }, { metadata: { a: 'b' } }])
    t.deepEqual(await changed(ana, id, body), { object: id, ok: false, code: 'OBJECT_IS_LEGACY' })
  const missing = `${ana.id}/missing.txt`
  t.deepEqual(await changed(ana, missing, { disposition: 'inline' }), {
    object: missing,
    ok: false,
    code: 'OBJECT_NOT_FOUND',
  })
  const moved = await changed(ana, id, { private: false, disposition: 'inline' })
  t.like(moved, { ok: true, changed: true, id: `pub/${ana.id}/old/a.txt`, private: false })
  t.like(await rowOf(moved.id), { content_disposition: 'inline' })
  await put(api().db, { ownerId: ana.id, bucket: 'legacy', key: 'b' }, 'old')
  t.like(await changed(ana, `${ana.id}/b`, { expire: null }), { id: `pub/${ana.id}/b`, changed: true })
  await put(api().db, { ownerId: ana.id, bucket: 'legacy', key: 'c' }, 'old')
  t.like(await changed(ana, `${ana.id}/c`, { private: true }), { id: `prv/${ana.id}/c`, url: null })
})

test('the plan decides which changes are allowed; without a paid one an object can still be made private', async t => {
  const bodies = {
    hide: { private: true },
    show: { private: false },
    expire: { expire: '7' },
    forever: { expire: null },
    soon: { expire: '167h' },
    header: { disposition: 'inline' },
    fresh: { cache_control: 'no-cache' },
    set: { metadata: { a: 'b' } },
    unset: { metadata: { a: null } },
  }
  const paid = ['show', 'expire', 'forever']
  const pro = ['set']
  const enterprise = ['soon', 'fresh']
  const refused: Record<string, Record<string, string[]>> = {
    free: { PERMISSION_DENIED: [...paid, 'soon'], UPGRADE_REQUIRED: ['fresh', ...pro] },
    'hobby-1': { UPGRADE_REQUIRED: [...pro, ...enterprise] },
    'standard-4': { UPGRADE_REQUIRED: [...pro, ...enterprise] },
    'pro-12': { UPGRADE_REQUIRED: enterprise },
    'enterprise-24': {},
  }
  for (const [plan, codes] of Object.entries(refused)) {
    const user = await api().makeUser({ plan })
    for (const [name, body] of Object.entries(bodies)) {
      await put(api().db, { ownerId: user.id, bucket: 'public', key: name }, 'x')
      const expected = Object.keys(codes).find(code => codes[code]?.includes(name))
      t.is((await changed(user, `pub/${user.id}/${name}`, body)).code, expected, `${plan}: ${name}`)
    }
  }
})

test('a malformed body is refused before any object changes', async t => {
  const ana = await api().makeUser()
  const { id: object } = await sent(api(), ana, { name: 'a' })
  const wrong: [object, string][] = [
    [{ private: true }, 'INVALID_OBJECT'],
    [{ objects: [], private: true }, 'INVALID_OBJECT'],
    [{ object: 5, private: true }, 'INVALID_OBJECT'],
    [{ objects: Array(51).fill(object), private: true }, 'TOO_MANY_OBJECTS'],
    [{ object }, 'NOTHING_TO_UPDATE'],
    [{ object, name: 'b' }, 'NOTHING_TO_UPDATE'],
    [{ object, private: 'true' }, 'INVALID_OBJECT_PRIVATE'],
    [{ object, private: null }, 'INVALID_OBJECT_PRIVATE'],
    [{ object, expire: 30 }, 'INVALID_OBJECT_EXPIRE'],
    [{ object, expire: '0h' }, 'INVALID_OBJECT_EXPIRE'],
    [{ object, cache_control: 'max-age=0' }, 'INVALID_OBJECT_CACHE_CONTROL'],
    [{ object, disposition: 'x' }, 'INVALID_OBJECT_DISPOSITION'],
    [{ object, metadata: [] }, 'INVALID_OBJECT_METADATA'],
    [{ object, metadata: { a: 1 } }, 'INVALID_OBJECT_METADATA'],
    [{ object, metadata: { a: 'b\r\nSet-Cookie: c' } }, 'INVALID_OBJECT_METADATA'],
    [{ object, metadata: { 'a\nb': 'c' } }, 'INVALID_OBJECT_METADATA'],
    [{ object, private: true, metadata: { '': 'x' } }, 'INVALID_OBJECT_METADATA'],
    [[], 'INVALID_BODY'],
  ]
  for (const [body, code] of wrong)
    t.like(await update(ana, body), { status: 400, body: { code } }, JSON.stringify(body))
  t.truthy(await rowOf(object))
  t.is(
    (await update(ana, { objects: Array(50).fill(`pub/${ana.id}/x`), private: true })).body.response.results.length,
    50,
  )
})
