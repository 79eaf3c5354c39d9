import { createHash, randomBytes } from 'node:crypto'
import test from 'ava'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { findObject, openObject } from '../../../../db/objects/objects.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { type SentFile, sendFile, sent } from '../../../kit/actors/sent-files.ts'
import { contentOf } from '../../../kit/objects/objects.ts'

const api = testApi()
const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
const md5 = (bytes: string) => createHash('md5').update(bytes).digest('hex')
const inSeconds = (iso: unknown) => Math.round((new Date(iso as string).getTime() - Date.now()) / 1000)
const day = 86_400

const rowOf = async (id: string) => (await findObject(api().db, objectName(id)!))!

const textOf = async (id: string) => (await contentOf(api(), objectName(id)!))?.toString()

/** Files that no segment is of, and objects of an account. */
async function left({ id }: TestUser): Promise<[loose: number, objects: number]> {
  const { rows } = await api().db.raw(
    `select count(*)::integer as n from segments where state = 'stored' and bytes is null`,
  )
  return [(await api().store.files()) - rows[0].n, (await readUsage(api().db, id)).objects]
}

test('an upload creates a row, a manifest and a segment, and the answer describes the object', async t => {
  const ana = await api().makeUser()
  const said = await sent(api(), ana, { name: 'photo', prefix: 'a/b/' }, { fileName: 'C:\\me\\Büro.PNG' })
  const id = `pub/${ana.id}/a/b/photo.png`
  t.deepEqual(said, {
    id,
    private: false,
    url: `${api().services.config.urls.public}/${id}`,
    name: 'photo',
    prefix: 'a/b',
    size: 5,
    sha256: sha256('hello'),
    replaced: false,
  })
  t.like(await rowOf(id), {
    content_type: 'image/png',
    etag: md5('hello'),
    sha256: sha256('hello'),
    original_name: 'Büro.PNG',
    metadata: {},
    expires_at: null,
    cache_control: null,
    content_disposition: null,
  })
  t.is(await textOf(id), 'hello')
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 5 })
})

test('every parameter is stored in the row', async t => {
  const ana = await api().makeUser()
  const said = await sent(
    api(),
    ana,
    {
      name: 'a',
      private: 'true',
      expire: '6h',
      auto_download: 'true',
      cache_control: 'max-age=60',
      metadata: '{"by":"ana","ü":""}',
      checksum_sha256: sha256('hello'),
      mimeType: 'ignored',
    },
    { fileName: 'archive.tar.gz' },
  )
  t.regex(said.id, new RegExp(`^prv/${ana.id}/a-ex\\d{10}\\.tar\\.gz$`))
  t.like(said, { private: true, url: null, name: 'a' })
  t.false('prefix' in said)
  t.true(Math.abs(inSeconds(said.expires_at) - 6 * 3600) <= 30)
  t.like(await rowOf(said.id), {
    content_type: 'application/gzip',
    content_disposition: 'attachment',
    cache_control: 'max-age=60',
    metadata: { by: 'ana', ü: '' },
  })
  t.is(said.id.match(/-ex(\d+)/)?.[1], String(new Date(said.expires_at as string).getTime() / 1000))
})

test('a file without a name gets an unguessable one, as does one whose upload requests it', async t => {
  const ana = await api().makeUser()
  const hashed = /_[a-z2-7]{16}/
  const unnamed = await sent(api(), ana, {}, { fileName: 'Émile & co.jpeg' })
  t.regex(unnamed.id, new RegExp(`^pub/${ana.id}/Emile-co${hashed.source}\\.jpeg$`))
  t.is(unnamed.name, 'Emile-co')
  t.regex((await sent(api(), ana, { name: 'x', security_hash: 'true' })).id, new RegExp(`/x${hashed.source}\\.txt$`))
  t.regex((await sent(api(), ana, {}, { fileName: '???' })).id, new RegExp(`/file${hashed.source}$`))
  const blob = await sent(api(), ana, { name: 'b' }, { fileName: 'blob', type: 'image/webp' })
  t.is(blob.id, `pub/${ana.id}/b.webp`)
  t.is((await rowOf(blob.id)).original_name, null)
  t.is((await sent(api(), ana, { name: 'notes.md' }, { fileName: 'blob' })).id, `pub/${ana.id}/notes.md`)
  t.is((await rowOf(`pub/${ana.id}/notes.md`)).content_type, 'text/markdown')
})

test.serial('an empty file and one of 100 MB are stored, one byte more is not', async t => {
  t.timeout(120_000)
  const ana = await api().makeUser()
  t.like(await sent(api(), ana, { name: 'empty' }, { bytes: '' }), { size: 0, sha256: sha256('') })
  const most = Buffer.alloc(100 * 1024 * 1024, 7)
  t.like(await sent(api(), ana, { name: 'most' }, { bytes: most }), { size: most.length, sha256: sha256(most) })
  const over = Buffer.concat([most, Buffer.from('!')])
  const refused = await sendFile(api(), ana, { name: 'over' }, { bytes: over })
  t.like(refused, { status: 413, body: { code: 'FILE_TOO_LARGE' } })
  t.deepEqual(await left(ana), [0, 2])
})

const refusals: [query: Record<string, string>, status: number, code: string, file?: SentFile][] = [
  [{ name: '' }, 400, 'INVALID_OBJECT_NAME'],
  [{ name: 'a..b' }, 400, 'INVALID_OBJECT_NAME'],
  [{ name: 'a'.repeat(129) }, 400, 'INVALID_OBJECT_NAME'],
  [{ name: 'a-ex1' }, 400, 'INVALID_OBJECT_NAME'],
  [{ name: 'a\0' }, 400, 'INVALID_OBJECT_NAME'],
  [{ prefix: 'a//b' }, 400, 'INVALID_OBJECT_PREFIX'],
  [{ prefix: '../a' }, 400, 'INVALID_OBJECT_PREFIX'],
  [{ prefix: '1/2/3/4/5/6/7/8/9' }, 400, 'INVALID_OBJECT_PREFIX'],
  [{ private: 'maybe' }, 400, 'INVALID_OBJECT_PRIVATE'],
  [{ security_hash: '' }, 400, 'INVALID_OBJECT_SECURITY_HASH'],
  [{ expire: '0' }, 400, 'INVALID_OBJECT_EXPIRE'],
  [{ expire: '1826' }, 400, 'INVALID_OBJECT_EXPIRE'],
  [{ expire: '43801h' }, 400, 'INVALID_OBJECT_EXPIRE'],
  [{ expire: 'tomorrow' }, 400, 'INVALID_OBJECT_EXPIRE'],
  [{ disposition: 'none' }, 400, 'INVALID_OBJECT_DISPOSITION'],
  [{ auto_download: 'x' }, 400, 'INVALID_STORAGE_AUTO_DOWNLOAD'],
  [{ cache_control: 'max-age=59' }, 400, 'INVALID_OBJECT_CACHE_CONTROL'],
  [{ cache_control: 'max-age=31536001' }, 400, 'INVALID_OBJECT_CACHE_CONTROL'],
  [{ cache_control: 'public' }, 400, 'INVALID_OBJECT_CACHE_CONTROL'],
  [{ metadata: '{"a":1}' }, 400, 'INVALID_OBJECT_METADATA'],
  [{ metadata: '{"a":{"toString":1}}' }, 400, 'INVALID_OBJECT_METADATA'],
  [{ metadata: 'a=b' }, 400, 'INVALID_OBJECT_METADATA'],
  [{ metadata: JSON.stringify({ a: 'b\r\nSet-Cookie: c' }) }, 400, 'INVALID_OBJECT_METADATA'],
  [{ metadata: JSON.stringify({ 'a\nb': 'c' }) }, 400, 'INVALID_OBJECT_METADATA'],
  [{ metadata: '{"a":"","b":"","c":"","d":"","e":"","f":""}' }, 400, 'INVALID_OBJECT_METADATA'],
  [{ metadata: JSON.stringify({ a: 'x'.repeat(512) }) }, 400, 'INVALID_OBJECT_METADATA'],
  [{ checksum_sha256: 'A'.repeat(64) }, 400, 'INVALID_PARAMETERS'],
  [{ overwrite: 'x' }, 400, 'INVALID_PARAMETERS'],
  [{ checksum_sha256: '0'.repeat(64) }, 400, 'CHECKSUM_MISMATCH'],
  [{}, 400, 'INVALID_FILE', { field: 'other' }],
  [{}, 400, 'INVALID_FILE_TYPE', { fileName: 'a.b c' }],
  [{}, 400, 'INVALID_FILE_TYPE', { fileName: `a.${'x'.repeat(17)}` }],
  [{}, 400, 'BLOCKED_FILE_TYPE', { fileName: 'setup.EXE' }],
  [{}, 400, 'BLOCKED_FILE_TYPE', { fileName: 'setup.tar.exe' }],
  [{ name: 'setup.exe' }, 400, 'BLOCKED_FILE_TYPE', { fileName: 'setup' }],
  [{ name: 'a-ex1000000000.md' }, 400, 'INVALID_OBJECT_NAME', { fileName: 'a' }],
]

test.serial('every refusal has its code and leaves nothing', async t => {
  const ana = await api().makeUser()
  for (const [query, status, code, file] of refusals) {
    const answer = await sendFile(api(), ana, query, file)
    t.like(answer, { status, body: { status: 'error', code } }, JSON.stringify([query, file]))
  }
  const plain = await api().blobAs(ana).post('/v1/objects', 'hello')
  t.like(plain, { status: 415, body: { code: 'INVALID_CONTENT_TYPE' } })
  t.deepEqual(await left(ana), [0, 0])
})

test('the longest values that are allowed pass', async t => {
  const ana = await api().makeUser()
  const prefix = Array.from({ length: 8 }, () => 'x'.repeat(31)).join('/')
  const name = 'n'.repeat(128)
  const metadata = JSON.stringify({ a: 'x'.repeat(504), b: '', c: '', d: '', é: 'x' })
  for (const expire of ['1h', '1825d', '43799h'])
    t.is((await sendFile(api(), ana, { prefix, name, expire, metadata })).status, 200, expire)
})

test('an existing name is replaced only on request', async t => {
  const ana = await api().makeUser()
  const first = await sent(api(), ana, { name: 'a' })
  const again = await sendFile(api(), ana, { name: 'a' }, { bytes: 'other' })
  t.like(again, { status: 409, body: { code: 'OBJECT_ALREADY_EXISTS' } })
  t.is(await textOf(first.id), 'hello')
  const { birth, etag } = await rowOf(first.id)
  t.like(await sent(api(), ana, { name: 'a', overwrite: 'true' }, { bytes: 'other!' }), {
    id: first.id,
    replaced: true,
  })
  t.is(await textOf(first.id), 'other!')
  t.like(await rowOf(first.id), { birth, etag: md5('other!') })
  t.not(etag, md5('other!'))
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 6 })
  t.like(await sent(api(), ana, { name: 'b', overwrite: 'true' }), { replaced: false })
  const racing = await Promise.all(Array.from({ length: 10 }, () => sendFile(api(), ana, { name: 'race' })))
  t.deepEqual(racing.map(({ status }) => status).sort(), [200, ...Array(9).fill(409)])
})

test('uploads need a paid plan, and options the plan that includes them', async t => {
  const nobody = await api().makeUser({ plan: 'free' })
  const over = await api().makeUser({ planEndsAt: new Date(Date.now() - 1000) })
  for (const user of [nobody, over])
    t.like(await sendFile(api(), user), { status: 401, body: { code: 'PERMISSION_DENIED' } })
  const options: Record<string, string>[] = [
    { expire: '6' },
    { expire: '167h' },
    { cache_control: 'no-cache' },
    { metadata: '{"a":"b"}' },
  ]
  const allowed: Record<string, number> = { 'hobby-1': 0, 'standard-4': 0, 'pro-12': 1, 'enterprise-24': 4 }
  for (const [plan, count] of Object.entries(allowed)) {
    const user = await api().makeUser({ plan })
    const answers = await Promise.all(options.map(query => sendFile(api(), user, query)))
    t.is(answers.filter(({ status }) => status === 200).length, count, plan)
    for (const { status, body } of answers)
      if (status !== 200) t.like({ status, body }, { status: 403, body: { code: 'UPGRADE_REQUIRED' } })
    t.is((await sendFile(api(), user, { expire: '7', metadata: '{}' })).status, 200)
  }
})

test('the rule with the longest prefix fills in defaults and enforces size and types', async t => {
  const ana = await api().makeUser()
  const rule = { owner_id: ana.id, private: null, expire: null, max_size: null, extensions: null, cache_control: null }
  await api()
    .db('blob_rules')
    .insert([
      { ...rule, prefix: 'a/', private: true, expire: '30d', cache_control: 'immutable' },
      { ...rule, prefix: 'a/b/', max_size: 512, extensions: ['txt', 'gz', 'min.js'] },
    ])
  const filled = await sent(api(), ana, { prefix: 'a', name: 'x' })
  t.like(filled, { private: true })
  t.true(Math.abs(inSeconds(filled.expires_at) - 30 * day) <= 30)
  t.is((await rowOf(filled.id)).cache_control, 'immutable')
  const asked = { prefix: 'a', name: 'y', private: 'false', expire: '7', cache_control: 'max-age=60' }
  const said = await sent(api(), ana, asked)
  t.like(said, { private: false })
  t.true(Math.abs(inSeconds(said.expires_at) - 7 * day) <= 30)
  t.like(await sent(api(), ana, { prefix: 'a/b', name: 'z' }, { bytes: 'x'.repeat(512) }), { private: false })
  const large = await sendFile(api(), ana, { prefix: 'a/b' }, { bytes: 'x'.repeat(513) })
  t.like(large, { status: 413, body: { code: 'FILE_TOO_LARGE' } })
  const type = await sendFile(api(), ana, { prefix: 'a/b' }, { fileName: 'a.png' })
  t.like(type, { status: 400, body: { code: 'FILE_TYPE_NOT_ALLOWED' } })
  for (const [fileName, status] of Object.entries({ 'a.tar.gz': 200, 'A.TAR.GZ': 200, 'a.min.js': 200, 'a.js': 400 }))
    t.is((await sendFile(api(), ana, { prefix: 'a/b' }, { fileName })).status, status, fileName)
  t.is((await sendFile(api(), ana, { prefix: 'ab' }, { fileName: 'a.png' })).status, 200)
})

test.serial('an Idempotency-Key stores one object and repeats its answer', async t => {
  const ana = await api().makeUser()
  const headers = { 'idempotency-key': 'once' }
  const first = await sendFile(api(), ana, { prefix: 'a' }, { headers })
  t.is(first.status, 200, first.text)
  const again = await sendFile(api(), ana, { prefix: 'a' }, { headers })
  t.deepEqual([again.status, again.text], [200, first.text])
  t.is(again.headers.get('idempotent-replayed'), 'true')
  const others: [Record<string, string>, SentFile][] = [
    [{ prefix: 'b' }, { headers }],
    [{ prefix: 'a' }, { headers, bytes: 'other' }],
    [{ prefix: 'a' }, { headers, fileName: 'other.txt' }],
  ]
  for (const [query, file] of others)
    t.like(await sendFile(api(), ana, query, file), { status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
  await api().db('idempotency_keys').where({ user_id: ana.id }).update({ status: null })
  const early = await sendFile(api(), ana, { prefix: 'a' }, { headers })
  t.like(early, { status: 409, body: { code: 'IDEMPOTENCY_IN_PROGRESS' } }, 'while the first runs')
  t.deepEqual(await left(ana), [0, 1])
})

test.serial('an Idempotency-Key repeats an answer only for upload tokens with the same pins', async t => {
  const ana = await api().makeUser()
  const mint = async (pins: object) =>
    (await api().blobAs(ana).post('/v1/upload-tokens', JSON.stringify(pins))).body.response.token
  const headers = { 'idempotency-key': 'k' }
  const first = await sendFile(api(), await mint({ prefix: 'a' }), {}, { headers })
  t.is(first.status, 200, first.text)
  const again = await sendFile(api(), await mint({ prefix: 'a' }), {}, { headers })
  t.is(again.text, first.text)
  const other = await sendFile(api(), await mint({ prefix: 'b', private: true }), {}, { headers })
  t.like(other, { status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
})

test.serial('an unavailable store is 503 with Retry-After, and nothing is stored', async t => {
  const ana = await api().makeUser()
  api().store.failing = true
  const refused = await sendFile(api(), ana, {}, { bytes: 'x'.repeat(17_000) })
  api().store.failing = false
  t.like(refused, { status: 503, body: { code: 'PUBLIC_STORAGE_UNAVAILABLE' } })
  t.is(refused.headers.get('retry-after'), '5')
  t.deepEqual(await left(ana), [0, 0])
  t.is((await sendFile(api(), ana)).status, 200)
})

test.serial(
  'a body of up to 16 KiB lies in its row, and a longer one in the store; both are read as they were sent',
  async t => {
    const ana = await api().makeUser()
    const before = await api().store.files()
    for (const [size, inline] of [
      [0, true],
      [1, true],
      [16_384, true],
      [16_385, false],
      [70_000, false],
    ] as const) {
      const bytes = randomBytes(size)
      const { id, sha256: said } = await sent(api(), ana, { name: `${size}` }, { bytes })
      t.is(said, sha256(bytes))
      t.deepEqual(await contentOf(api(), objectName(id)!), bytes)
      t.is((await openObject(api().db, objectName(id)!))!.parts[0]!.inline, inline, `${size} bytes`)
      const got = await fetch(`${api().publicUrl}/${id}`)
      t.deepEqual(Buffer.from(await got.arrayBuffer()), bytes)
    }
    t.is(await api().store.files(), before + 2)
  },
)
