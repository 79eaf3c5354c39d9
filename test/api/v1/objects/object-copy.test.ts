import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { findObject } from '../../../../db/objects/objects.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { sent } from '../../../kit/actors/sent-files.ts'
import { put } from '../../../kit/objects/objects.ts'

const api = testApi()
const gib = 1024 ** 3

const copy = (user: TestUser, body: object, headers?: Record<string, string>): Promise<Answer> =>
  api().blobAs(user).post('/v1/objects/copy', JSON.stringify(body), headers)
const rowOf = (id: string) => findObject(api().db, objectName(id)!)
const hashed = '_[a-z2-7]{16}'

async function copied(user: TestUser, body: object) {
  const { status, body: answer } = await copy(user, body)
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(answer)}`)
  return answer.response
}

test('a copy keeps type, headers, metadata and content, shares the segments, and counts', async t => {
  const ana = await api().makeUser()
  const query = { name: 'a', prefix: 'p', metadata: '{"by":"ana"}', cache_control: 'immutable', disposition: 'inline' }
  const { id } = await sent(api(), ana, query, { fileName: 'me.png' })
  const id2 = `pub/${ana.id}/b.png`
  t.deepEqual(await copied(ana, { source: id, destination: { name: 'b' } }), {
    id: id2,
    private: false,
    url: `${api().services.config.urls.public}/${id2}`,
    size: 5,
    source: id,
    moved: false,
    replaced: false,
  })
  const [source, target] = [(await rowOf(id))!, (await rowOf(id2))!]
  for (const column of [
    'content_type',
    'etag',
    'metadata',
    'cache_control',
    'content_disposition',
    'original_name',
  ] as const)
    t.deepEqual(target[column], source[column], column)
  t.not(target.birth, source.birth)
  t.like(await readUsage(api().db, ana.id), { objects: 2, bytes: 10 })
  t.is(
    (
      await api()
        .db('object_parts')
        .countDistinct('segment_id as n')
        .whereIn('generation', [source.generation, target.generation])
    )[0]?.n,
    '1',
  )
})

test('a copy or move keeps on every paid plan what its source has; only a new end below 7 days needs the plan', async t => {
  const ana = await api().makeUser()
  const source = async (query: Record<string, string>) => (await sent(api(), ana, query)).id
  const plain = await source({ name: 'plain' })
  const [tagged, fresh, soon] = [
    await source({ name: 'tagged', metadata: '{"by":"ana"}' }),
    await source({ name: 'fresh', cache_control: 'no-cache' }),
    await source({ name: 'soon', expire: '2h' }),
  ]
  await api().db('users').where({ id: ana.id }).update({ plan: 'hobby-1' })
  const { key } = await api().makeKey(ana, {}) // what is remembered of the first one has the old plan
  const hobby = { ...ana, key }
  const cases: [object, string | undefined][] = [
    [{ source: plain, destination: { name: 'a', expire: '6d' } }, 'UPGRADE_REQUIRED'],
    [{ source: plain, destination: { name: 'a', expire: '167h' }, move: true }, 'UPGRADE_REQUIRED'],
    [{ source: plain, destination: { name: 'a', expire: '7d' } }, undefined],
    [{ source: soon, destination: { name: 'b' } }, undefined],
    [{ source: tagged, destination: { name: 'c' } }, undefined],
    [{ source: fresh, destination: { name: 'd' } }, undefined],
  ]
  for (const [body, code] of cases) t.is((await copy(hobby, body)).body.code, code, JSON.stringify(body))
  t.like(await rowOf(`pub/${ana.id}/c.txt`), { metadata: { by: 'ana' } })
  t.like(await rowOf(`pub/${ana.id}/d.txt`), { cache_control: 'no-cache' })
  for (const [source, name] of [
    [tagged, 'e'],
    [fresh, 'f'],
  ])
    t.is((await copy(hobby, { source, destination: { name }, move: true })).status, 200)
})

test('a move changes the name and counts nothing', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const moved = await copied(ana, { source: id, destination: { name: 'b', prefix: 'x/' }, move: true })
  t.like(moved, { id: `pub/${ana.id}/x/b.txt`, moved: true, replaced: false })
  t.is(await rowOf(id), undefined)
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 5 })
  t.like(await copy(ana, { source: id, destination: { name: 'c' } }), {
    status: 404,
    body: { code: 'OBJECT_NOT_FOUND' },
  })
})

test('a private copy always has a random part, others on request', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const to = async (destination: object) =>
    (await copied(ana, { source: id, destination: { name: 'b', ...destination } })).id
  t.regex(await to({ private: true }), new RegExp(`^prv/${ana.id}/b${hashed}\\.txt$`))
  t.regex(await to({ security_hash: true }), new RegExp(`^pub/${ana.id}/b${hashed}\\.txt$`))
  const { id: hidden } = await sent(api(), ana, { name: 'h', private: 'true' })
  const kept = await copied(ana, { source: hidden, destination: { name: 'h' } })
  t.regex(kept.id, new RegExp(`^prv/${ana.id}/h${hashed}\\.txt$`), 'visibility stays unless it is said')
  t.is((await copied(ana, { source: hidden, destination: { name: 'h', private: false } })).id, `pub/${ana.id}/h.txt`)
})

test('a copy keeps, changes or drops the expiry', async t => {
  const ana = await api().makeUser()
  const { id, expires_at } = await sent(api(), ana, { name: 'a', expire: '30' })
  const to = (destination: object) => copied(ana, { source: id, destination })
  const same = await to({ name: 'b' })
  t.is(same.expires_at, expires_at)
  t.is(same.id, id.replace('/a-', '/b-'))
  const soon = await to({ name: 'c', expire: '1h' })
  t.true(Math.abs(new Date(soon.expires_at).getTime() - Date.now() - 3_600_000) < 60_000)
  const never = await to({ name: 'd', expire: null })
  t.is(never.id, `pub/${ana.id}/d.txt`)
  t.false('expires_at' in never)
})

test('a copy replaces an existing name only on request', async t => {
  const ana = await api().makeUser()
  const [a, b] = [await sent(api(), ana, { name: 'a' }), await sent(api(), ana, { name: 'b' }, { bytes: 'other one' })]
  const onto = { source: a.id, destination: { name: 'b' } }
  for (const move of [false, true])
    t.like(await copy(ana, { ...onto, move }), { status: 409, body: { code: 'OBJECT_ALREADY_EXISTS' } })
  t.like(await copied(ana, { ...onto, overwrite: true }), { id: b.id, replaced: true })
  t.like(await readUsage(api().db, ana.id), { objects: 2, bytes: 10 })
  t.like(await copied(ana, { ...onto, overwrite: true, move: true }), { replaced: true, moved: true })
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 5 })
})

test('a legacy object can be moved to the current storage', async t => {
  const ana = await api().makeUser()
  await put(api().db, { ownerId: ana.id, bucket: 'legacy', key: 'old/a.pdf' }, 'old')
  const source = `${ana.id}/old/a.pdf`
  t.is((await copied(ana, { source, destination: { name: 'b' } })).id, `pub/${ana.id}/b.pdf`)
  t.like(await copied(ana, { source, destination: { name: 'a', prefix: 'old' }, move: true }), {
    id: `pub/${ana.id}/old/a.pdf`,
    moved: true,
  })
  t.is(await rowOf(source), undefined)
})

test('a copy needs room, a move does not', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const { id } = await sent(api(), ana, { name: 'a' })
  await api().services.quota.close()
  const row = { owner_id: ana.id, objects: 1, bytes: 5 * gib - 9 }
  await api().db('blob_usage').insert(row).onConflict('owner_id').merge()
  const to = (name: string, more = {}) => copy(ana, { source: id, destination: { name }, ...more })
  t.like(await to('b'), { status: 403, body: { code: 'STORAGE_QUOTA_EXCEEDED' } })
  await api().db('blob_usage').where({ owner_id: ana.id }).decrement('bytes', 1)
  t.is((await to('b')).status, 200)
  t.is((await to('c')).status, 403)
  t.is((await to('b', { overwrite: true })).status, 200, 'it adds nothing')
  t.is((await to('c', { move: true })).status, 200)
})

test('an Idempotency-Key moves once and repeats its answer', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const body = { source: id, destination: { name: 'b' }, move: true }
  const headers = { 'idempotency-key': 'once' }
  const first = await copy(ana, body, headers)
  t.is(first.status, 200)
  const again = await copy(ana, body, headers)
  t.deepEqual([again.status, again.text], [200, first.text])
  const other = await copy(ana, { ...body, move: false }, headers)
  t.like(other, { status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
  await api().db('idempotency_keys').where({ user_id: ana.id }).update({ status: null })
  t.like(
    await copy(ana, body, headers),
    { status: 409, body: { code: 'IDEMPOTENCY_IN_PROGRESS' } },
    'while the first runs',
  )
  const long = await copy(ana, body, { 'idempotency-key': 'x'.repeat(256) })
  t.like(long, { status: 400, body: { code: 'INVALID_PARAMETERS' } })
})

test('null means left out, except for an expiry', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a', expire: '30d' })
  const destination = { name: 'b', prefix: null, private: null, security_hash: null }
  const same = await copied(ana, { source: id, destination, move: null, overwrite: null })
  t.is(same.id, id.replace('/a-', '/b-'))
  t.like(same, { private: false, moved: false, replaced: false })
  const never = await copied(ana, { source: id, destination: { ...destination, expire: null } })
  t.is(never.id, `pub/${ana.id}/b.txt`)
})

test('a copy refuses invalid bodies', async t => {
  const ana = await api().makeUser()
  const { id: source } = await sent(api(), ana, { name: 'a' })
  const wrong: [object, string][] = [
    [{}, 'INVALID_OBJECT'],
    [{ source: 'x', destination: { name: 'b' } }, 'INVALID_OBJECT'],
    [{ source }, 'INVALID_DESTINATION'],
    [{ source, destination: 'b' }, 'INVALID_DESTINATION'],
    [{ source, destination: {} }, 'INVALID_OBJECT_NAME'],
    [{ source, destination: { name: 'a/b' } }, 'INVALID_OBJECT_NAME'],
    [{ source, destination: { name: 'b', prefix: '..' } }, 'INVALID_OBJECT_PREFIX'],
    [{ source, destination: { name: 'b', private: 'true' } }, 'INVALID_DESTINATION'],
    [{ source, destination: { name: 'b', security_hash: 1 } }, 'INVALID_DESTINATION'],
    [{ source, destination: { name: 'b' }, move: 'yes' }, 'INVALID_DESTINATION'],
    [{ source, destination: { name: 'b', expire: '59m' } }, 'INVALID_OBJECT_EXPIRE'],
    [{ source, destination: { name: 'b', expire: '1826d' } }, 'INVALID_OBJECT_EXPIRE'],
    [{ source, destination: { name: 'b', private: true, security_hash: false } }, 'INVALID_OBJECT_SECURITY_HASH'],
    [{ source, destination: { name: 'a' } }, 'SAME_OBJECT'],
    [{ source, destination: { name: 'a' }, move: true, overwrite: true }, 'SAME_OBJECT'],
  ]
  for (const [body, code] of wrong) t.like(await copy(ana, body), { status: 400, body: { code } }, JSON.stringify(body))
  const poor = await api().makeUser({ plan: 'free' })
  t.like(await copy(poor, { source, destination: { name: 'b' } }), { status: 401, body: { code: 'PERMISSION_DENIED' } })
})

test('a name brings no extension to a copy that an upload of that name would be refused for', async t => {
  const ana = await api().makeUser()
  const { id: source } = await sent(api(), ana, { name: 'plain' }, { fileName: 'plain' })
  const to = (name: string, more: object = {}) => copy(ana, { source, destination: { name, ...more } })
  t.like(await to('setup.exe'), { status: 400, body: { code: 'BLOCKED_FILE_TYPE' } })
  t.like(await to('setup.EXE', { expire: '30d' }), { status: 400, body: { code: 'BLOCKED_FILE_TYPE' } })
  t.like(await to('a-ex1000000000.md'), { status: 400, body: { code: 'INVALID_OBJECT_NAME' } })
  t.is((await to('notes.md')).body.response.id, `pub/${ana.id}/notes.md`)
})

test('a name brings its extension and type to a copy or move of a file without one, as to an upload', async t => {
  const ana = await api().makeUser()
  const like = async (id: string) => (await rowOf(id))?.content_type
  for (const [name, key, type] of [
    ['notes.md', 'notes.md', 'text/markdown'],
    ['LOUD.PNG', 'LOUD.png', 'image/png'],
    ['back.tar.gz', 'back.tar.gz', 'application/gzip'],
    ['v1.0', 'v1.0', 'application/octet-stream'],
    ['README', 'README', 'application/octet-stream'],
  ] as const) {
    const upload = await sent(api(), ana, { name, prefix: 'sent' }, { fileName: 'plain' })
    t.deepEqual([upload.id, await like(upload.id)], [`pub/${ana.id}/sent/${key}`, type])
    for (const move of [false, true]) {
      const source = (await sent(api(), ana, { name: 'plain', overwrite: 'true' }, { fileName: 'plain' })).id
      const prefix = move ? 'moved' : 'copied'
      const { id } = await copied(ana, { source, destination: { name, prefix }, move })
      t.deepEqual([id, await like(id)], [`pub/${ana.id}/${prefix}/${key}`, type])
    }
  }
  const { id: source } = await sent(api(), ana, { name: 'plain', overwrite: 'true' }, { fileName: 'plain' })
  const hidden = await copied(ana, { source, destination: { name: 'notes.md', private: true, expire: '30d' } })
  t.regex(hidden.id, new RegExp(`^prv/${ana.id}/notes${hashed}-ex\\d+\\.md$`))
})

test('an object with an extension keeps it and its type, whatever its new name', async t => {
  const ana = await api().makeUser()
  const { id: source } = await sent(api(), ana, { name: 'a' }, { fileName: 'me.png' })
  for (const move of [false, true]) {
    const { id } = await copied(ana, { source, destination: { name: `b${move}.txt` }, move })
    t.deepEqual([id, (await rowOf(id))?.content_type], [`pub/${ana.id}/b${move}.txt.png`, 'image/png'])
  }
})

test('a file without extension keeps a known type', async t => {
  const ana = await api().makeUser()
  const { id: source } = await sent(api(), ana, { name: 'plain' }, { fileName: 'plain' })
  await api().db('objects').where({ owner_id: ana.id, key: 'plain' }).update({ content_type: 'text/x-notes' })
  const { id } = await copied(ana, { source, destination: { name: 'notes.md' } })
  t.is((await rowOf(id))?.content_type, 'text/x-notes')
})
