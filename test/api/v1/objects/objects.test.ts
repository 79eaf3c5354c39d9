import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { sendFile, sent } from '../../../kit/actors/sent-files.ts'
import { put } from '../../../kit/objects/objects.ts'

const api = testApi()

const ids = (answer: Answer): string[] => answer.body.response.objects.map((object: { id: string }) => object.id)
const list = (user: TestUser, query: Record<string, string> = {}) =>
  api()
    .blobAs(user)
    .get(`/v1/objects?${new URLSearchParams(query)}`)
const info = (user: TestUser, object: string) =>
  api()
    .blobAs(user)
    .get(`/v1/objects/info?${new URLSearchParams({ object })}`)
const remove = (user: TestUser, body: unknown) =>
  api()
    .blobAs(user)
    .request('DELETE', '/v1/objects', { body: typeof body === 'string' ? body : JSON.stringify(body) })

test('info shows all properties of an object', async t => {
  const ana = await api().makeUser()
  const query = { name: 'a', prefix: 'p', cache_control: 'immutable', disposition: 'inline', metadata: '{"by":"ana"}' }
  const { id, url } = await sent(api(), ana, query, { fileName: 'me.png' })
  const { status, body } = await info(ana, id)
  t.is(status, 200)
  const { created_at, ...rest } = body.response
  t.true(Math.abs(Date.now() - new Date(created_at).getTime()) < 60_000)
  t.deepEqual(rest, {
    id,
    private: false,
    url,
    size: 5,
    content_type: 'image/png',
    etag: '5d41402abc4b2a76b9719d911017c592',
    expires_at: null,
    cache_control: 'immutable',
    content_disposition: 'inline',
    original_name: 'me.png',
    metadata: { by: 'ana' },
    legacy: false,
  })
  await put(api().db, { ownerId: ana.id, bucket: 'legacy', key: 'old/a b.txt' }, 'old')
  const old = await info(ana, `${ana.id}/old/a b.txt`)
  t.like(old.body.response, { legacy: true, private: false, original_name: null })
  t.true(old.body.response.url.endsWith(`/${ana.id}/old/a%20b.txt`))
  t.like(await info(ana, `pub/${ana.id}/p/b.png`), { status: 404, body: { code: 'OBJECT_NOT_FOUND' } })
  t.like(await api().blobAs(ana).get('/v1/objects/info'), { status: 400, body: { code: 'INVALID_OBJECT' } })
})

test('an object of another account is answered like a missing one', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const { id } = await sent(api(), bob, { name: 'secret', private: 'true' })
  const nobodys = `prv/${bob.id}/nothing.txt`
  const asks: ((object: string) => Promise<Answer>)[] = [
    object => info(ana, object),
    object => remove(ana, { object }),
    object =>
      api()
        .blobAs(ana)
        .post('/v1/objects/copy', JSON.stringify({ source: object, destination: { name: 'x' } })),
  ]
  for (const ask of asks) {
    const [foreign, missing, malformed] = [await ask(id), await ask(nobodys), await ask('no id at all')]
    t.like(foreign, { status: 400, body: { code: 'INVALID_OBJECT' } })
    t.deepEqual([foreign.status, foreign.text], [missing.status, missing.text])
    t.deepEqual([foreign.status, foreign.text], [malformed.status, malformed.text])
  }
  const update = { objects: [id, nobodys], private: false }
  const answer = await api()
    .blobAs(ana)
    .request('PATCH', '/v1/objects', { body: JSON.stringify(update) })
  const refused = (object: string) => ({ object, ok: false, code: 'INVALID_OBJECT' })
  t.deepEqual(answer.body.response.results, [refused(id), refused(nobodys)])
  t.deepEqual((await remove(ana, { objects: [id, nobodys] })).body.response, {
    deleted: [],
    not_found: [],
    failed: [id, nobodys].map(id => ({ id, code: 'INVALID_OBJECT' })),
  })
  t.is((await info(bob, id)).status, 200)
})

test('a listing shows all objects in byte order of their names, or those of one visibility or folder', async t => {
  const ana = await api().makeUser()
  t.deepEqual((await list(ana)).body.response, { objects: [] })
  const b = await sent(api(), ana, { name: 'b', expire: '30' })
  const hidden = await sent(api(), ana, { name: 'a', private: 'true' })
  const inner = await sent(api(), ana, { name: 'c', prefix: 'x/y' })
  const deeper = await sent(api(), ana, { name: 'd', prefix: 'x/y/z' })
  await put(api().db, { ownerId: ana.id, bucket: 'legacy', key: 'Old' }, 'old')
  const legacy = `${ana.id}/Old`
  const all = await list(ana)
  t.deepEqual(ids(all), [legacy, hidden.id, b.id, inner.id, deeper.id])
  t.deepEqual(Object.keys(all.body.response), ['objects'])
  const [, first, second] = all.body.response.objects
  t.like(first, { private: true, url: null, size: 5, etag: '5d41402abc4b2a76b9719d911017c592' })
  t.false('expires_at' in first)
  t.like(second, { private: false, url: b.url, expires_at: b.expires_at })
  t.deepEqual(ids(await list(ana, { private: 'true' })), [hidden.id])
  t.deepEqual(ids(await list(ana, { private: 'false' })), [legacy, b.id, inner.id, deeper.id])
  t.deepEqual(ids(await list(ana, { prefix: 'x/y' })), [inner.id, deeper.id])
  t.deepEqual(ids(await list(ana, { prefix: 'x/y/z/' })), [deeper.id])
  t.deepEqual(ids(await list(ana, { prefix: 'x/yy' })), [])
  const folded = await list(ana, { delimiter: '/' })
  t.deepEqual([ids(folded), folded.body.response.folders], [[legacy, hidden.id, b.id], ['x/']])
  const below = await list(ana, { delimiter: '/', prefix: 'x/y' })
  t.deepEqual([ids(below), below.body.response.folders], [[inner.id], ['x/y/z/']])
})

test('every folder that a listing names can be listed, page by page', async t => {
  const ana = await api().makeUser()
  const deep = Array(9).fill('d').join('/')
  const keys = ['my photos/', 'my photos/a b.png', '.git/config', 'café/menü', 'a/../b', 'a//b', `${deep}/x`]
  for (const key of keys) await put(api().db, { ownerId: ana.id, bucket: 'public', key }, 'x')
  const seen: string[] = []
  const walk = async (prefix: Record<string, string>): Promise<void> => {
    let cursor: Record<string, string> = {}
    do {
      const page = await list(ana, { delimiter: '/', limit: '1', ...prefix, ...cursor })
      if (page.status !== 200) throw new Error(`${JSON.stringify(prefix)}: ${page.text}`)
      const { response } = page.body
      seen.push(...ids(page))
      for (const folder of response.folders) await walk({ prefix: folder })
      cursor = response.cursor && { cursor: response.cursor }
    } while (cursor)
  }
  await walk({})
  t.deepEqual(seen.sort(), keys.map(key => `pub/${ana.id}/${key}`).sort())
  const limited = await api().makeKey(ana, { prefixes: ['a/'] })
  const answer = (prefix: string) =>
    api()
      .blobAs(limited.key)
      .get(`/v1/objects?${new URLSearchParams({ prefix })}`)
  t.deepEqual(ids(await answer('a/../')), [`pub/${ana.id}/a/../b`])
  t.like(await answer('my photos/'), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
})

test('either name of the cursor continues a listing, and a cursor works only for its listing', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  for (const name of ['a', 'b', 'c', 'd', 'e']) await sent(api(), ana, { name, prefix: 'p' })
  const all = ids(await list(ana))
  const seen: string[] = []
  let query: Record<string, string> = { limit: '2' }
  for (const name of ['cursor', 'continuationToken', 'end']) {
    const page = await list(ana, query)
    seen.push(...ids(page))
    const { cursor, continuationToken } = page.body.response
    t.is(cursor, continuationToken)
    t.is(cursor === undefined, name === 'end')
    query = { limit: '2', [name]: cursor }
  }
  t.deepEqual(seen, all)
  const { cursor } = (await list(ana, { limit: '2' })).body.response
  t.is((await list(ana, { cursor, limit: '3' })).status, 200, 'a page may have another length')
  const altered = cursor.slice(0, -1) + (cursor.endsWith('A') ? 'B' : 'A')
  const wrong: [TestUser, Record<string, string>][] = [
    [ana, { cursor: '' }],
    [ana, { cursor: 'x'.repeat(2049) }],
    [ana, { continuationToken: 'abc' }],
    [ana, { cursor: altered }],
    [ana, { cursor, prefix: 'p' }],
    [ana, { cursor, private: 'false' }],
    [ana, { cursor, delimiter: '/' }],
    [bob, { cursor }],
  ]
  for (const [user, query] of wrong)
    t.like(
      await list(user, query),
      { status: 400, body: { code: 'INVALID_CONTINUATION_TOKEN' } },
      JSON.stringify(query),
    )
})

test('a listing refuses invalid parameters', async t => {
  const ana = await api().makeUser()
  for (const [name, value] of [
    'limit=0',
    'limit=1001',
    'limit=x',
    'limit=0x10',
    'limit=1e2',
    'delimiter=-',
    'private=x',
  ].map(text => text.split('=')))
    t.like(await list(ana, { [name as string]: value as string }), {
      status: 400,
      body: { code: 'INVALID_PARAMETERS' },
    })
  for (const prefix of ['/a', '/', '/a/', 'my photos', '..', 'a\0/', `${'é'.repeat(512)}/`])
    t.like(await list(ana, { prefix }), { status: 400, body: { code: 'INVALID_OBJECT_PREFIX' } }, prefix)
  t.is((await list(ana, { prefix: `${'é'.repeat(511)}a/` })).status, 200)
  t.is((await list(ana, { limit: '1000' })).status, 200)
})

test('a single object is deleted or missing, in every form of the body', async t => {
  const ana = await api().makeUser()
  for (const name of ['object', 'objects', 'list']) {
    const { id } = await sent(api(), ana, { name: 'a' })
    const body = name === 'list' ? { objects: [id] } : { [name]: id }
    const removed = await remove(ana, body)
    t.deepEqual([removed.status, removed.body], [200, { status: 'success' }])
    t.like(await remove(ana, body), { status: 404, body: { code: 'OBJECT_NOT_FOUND' } })
    t.is((await info(ana, id)).status, 404)
  }
  t.like(await readUsage(api().db, ana.id), { objects: 0, bytes: 0 })
})

test('a deletion of several objects lists the deleted, the missing and the failed ones', async t => {
  const ana = await api().makeUser()
  const made = [await sent(api(), ana, { name: 'a' }), await sent(api(), ana, { name: 'b', private: 'true' })]
  const missing = `pub/${ana.id}/nothing.txt`
  const objects = [made[1]!.id, missing, 'nonsense', made[0]!.id, made[0]!.id]
  t.deepEqual((await remove(ana, { objects })).body.response, {
    deleted: [made[1]!.id, made[0]!.id],
    not_found: [missing],
    failed: [{ id: 'nonsense', code: 'INVALID_OBJECT' }],
  })
  t.deepEqual(ids(await list(ana)), [])
})

test('a deletion refuses malformed bodies and more than 100 ids', async t => {
  const ana = await api().makeUser()
  const id = (n: number) => `pub/${ana.id}/${n}.txt`
  for (const body of [{}, { objects: [] }, { object: 1 }, { objects: [1] }, { object: null }])
    t.like(await remove(ana, body), { status: 400, body: { code: 'INVALID_OBJECT' } }, JSON.stringify(body))
  for (const body of ['', '[]', 'x', '"x"'])
    t.is((await remove(ana, body)).body.code, body === '' ? 'INVALID_OBJECT' : 'INVALID_BODY', body)
  const hundred = Array.from({ length: 100 }, (_, n) => id(n))
  t.is((await remove(ana, { objects: hundred })).body.response.not_found.length, 100)
  t.like(await remove(ana, { objects: [...hundred, id(100)] }), { status: 400, body: { code: 'TOO_MANY_OBJECTS' } })
})

test('an expired object is neither listed nor shown, and its name is free', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  await api()
    .db('objects')
    .where({ owner_id: ana.id })
    .update({ expires_at: new Date(Date.now() - 1000) })
  t.deepEqual(ids(await list(ana)), [])
  t.is((await info(ana, id)).status, 404)
  t.is((await remove(ana, { object: id })).status, 404)
  t.like((await sendFile(api(), ana, { name: 'a' })).body.response, { id, replaced: false })
})
