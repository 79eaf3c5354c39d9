import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import test from 'ava'
import { transaction } from '../../../../db/database.ts'
import { findObject, manifestOf } from '../../../../db/objects/objects.ts'
import { abortUpload } from '../../../../db/objects/uploads/upload-ends.ts'
import { readOpenParts } from '../../../../db/objects/uploads/uploads.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { chunkBytes } from '../../../../policy/objects/uploads/chunked.ts'
import { type Answer, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { chunkedAs, fullPart } from '../../../kit/actors/chunked.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const api = testApi()
const md5 = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')

const partsUnderWay = async ({ id }: TestUser): Promise<number> =>
  (
    await api()
      .db('blob_leases')
      .where({ subject: `part/${id}` })
  ).length

async function contentOf(id: string): Promise<Buffer> {
  const { db, store } = api()
  const object = (await findObject(db, objectName(id)!))!
  const pieces: Buffer[] = []
  for (const part of await manifestOf(db, object.generation)) pieces.push(await buffer(await store.get(part.segmentId)))
  return Buffer.concat(pieces)
}

/** Six parts of ten bytes that are all on their way, and do not end until that is requested. */
async function sixUnderWay(user: TestUser, send: (n: number, body: ReadableStream) => Promise<Answer>) {
  const ends: (() => void)[] = []
  const body = () =>
    new ReadableStream({
      start(controller) {
        controller.enqueue(new Uint8Array(10))
        ends.push(() => controller.close())
      },
    })
  const six = Array.from({ length: 6 }, (_, n) => send(n, body()))
  await comesTrue(async () => (await partsUnderWay(user)) === 6)
  const end = () => {
    for (const close of ends) close()
    return Promise.all(six)
  }
  return { end }
}

test('a file in three parts, sent in any order and one of them twice, arrives unchanged', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const init = await chunked.init({ name: 'film', prefix: 'a/b', metadata: '{"by":"ana"}', cache_control: 'immutable' })
  t.is(init.status, 200, init.text)
  const { upload, ...said } = init.body.response
  t.deepEqual(said, {
    id: `pub/${ana.id}/a/b/film.mp4`,
    max_parts: 205,
    chunk: { min_size: 5_242_880, max_size: 33_554_432, max_parts: 205, max_object_size: 205 * 33_554_432 },
  })
  const [one, two, three] = [fullPart(), fullPart(), Buffer.from('the end')]
  t.is((await chunked.part(upload, 2, fullPart())).status, 200)
  t.is((await chunked.part(upload, 3, three)).status, 200)
  t.deepEqual((await chunked.status(upload)).body.response.next_part, 1)
  const sent = await chunked.part(upload, 2, two)
  t.deepEqual(sent.body.response, { part: 2, size: two.length, etag: md5(two) })
  const gap = await chunked.complete(upload)
  t.like(gap, { status: 400, body: { code: 'INVALID_CHUNK_PART', message: 'Part 1 is missing.' } })
  await chunked.part(upload, 1, one)
  const status = await chunked.status(upload)
  t.deepEqual(status.body.response, {
    id: said.id,
    parts: [one, two, three].map((body, i) => ({ part: i + 1, size: body.length, etag: md5(body) })),
    next_part: 4,
    size_so_far: 2 * chunkBytes.min + 7,
  })
  const done = await chunked.complete(upload)
  t.deepEqual(done.body.response, {
    id: said.id,
    private: false,
    url: `${api().services.config.urls.public}/${said.id}`,
    size: 2 * chunkBytes.min + 7,
    parts: 3,
  })
  t.true((await contentOf(said.id)).equals(Buffer.concat([one, two, three])))
  const object = await findObject(api().db, objectName(said.id)!)
  t.like(object, {
    content_type: 'video/mp4',
    cache_control: 'immutable',
    metadata: { by: 'ana' },
    original_name: 'film.mp4',
  })
  for (const late of [
    chunked.complete(upload),
    chunked.status(upload),
    chunked.part(upload, 4, three),
    chunked.abort(upload),
  ])
    t.like(await late, { status: 404, body: { code: 'UPLOAD_NOT_FOUND' } })
})

test('a private upload that expires says both, and its name cannot be guessed', async t => {
  const chunked = chunkedAs(api().blobAs(await api().makeUser()))
  const { upload, id } = (await chunked.init({ private: 'true', expire: '30d', security_hash: 'true', name: 'x' })).body
    .response
  t.regex(id, /^prv\/\d{18}\/x_[a-z2-7]{16}-ex\d+\.mp4$/)
  await chunked.part(upload, 1, 'bytes')
  const { response } = (await chunked.complete(upload)).body
  t.like(response, { id, private: true, url: null, size: 5, parts: 1 })
  t.is(response.expires_at, new Date(Number(/-ex(\d+)/.exec(id)?.[1]) * 1000).toISOString())
})

test('an aborted upload has ended, its parts are unreferenced, and aborting again is no error', async t => {
  const { db, blobAs, makeUser } = api()
  const ana = await makeUser()
  const chunked = chunkedAs(blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  await chunked.part(upload, 1, 'bytes')
  t.deepEqual((await chunked.abort(upload)).body, { status: 'success' })
  t.deepEqual((await chunked.abort(upload)).body, { status: 'success' })
  for (const late of [chunked.complete(upload), chunked.status(upload), chunked.part(upload, 1, 'x')])
    t.like(await late, { status: 404, body: { code: 'UPLOAD_NOT_FOUND' } })
  t.deepEqual(await db('upload_parts').whereIn('upload_id', db('uploads').where({ owner_id: ana.id }).select('id')), [])
})

test.serial(
  'an upload that ends while it is looked at for its completion is reported as over, not as one without parts',
  async t => {
    const { db, blobAs, makeUser } = api()
    const ana = await makeUser()
    const chunked = chunkedAs(blobAs(ana))
    const { upload } = (await chunked.init()).body.response
    await chunked.part(upload, 1, 'bytes')
    const { id } = await db('uploads').where({ owner_id: ana.id }).first('id')
    const waiting = db('pg_stat_activity')
      .where({ wait_event_type: 'Lock', datname: db.raw('current_database()') })
      .whereLike('query', '%from upload_parts where upload_id%')
    const completed = await transaction(db, async trx => {
      await trx.raw('lock table upload_parts in access exclusive mode')
      const answer = chunked.complete(upload)
      await comesTrue(async () => (await waiting.clone()).length > 0)
      await abortUpload(trx, { id, ownerId: ana.id })
      return { answer }
    })
    t.like(await completed.answer, { status: 404, body: { code: 'UPLOAD_NOT_FOUND' } })
  },
)

test('a file is not completed with a part in the middle that is too small, or with swept segments', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const { upload } = (await chunked.init({ name: 'a' })).body.response
  await chunked.part(upload, 1, 'bytes')
  await chunked.part(upload, 2, 'more')
  t.like(await chunked.complete(upload), { status: 400, body: { code: 'CHUNK_TOO_SMALL' } })
  const other = (await chunked.init({ name: 'b' })).body.response.upload
  await chunked.part(other, 1, 'bytes')
  const { db } = api()
  const mine = db('upload_parts').join('uploads', 'uploads.id', 'upload_id').where({ owner_id: ana.id, key: 'b.mp4' })
  await db('segments').whereIn('id', mine.select('segment_id')).update({ state: 'dying' })
  t.like(await chunked.complete(other), { status: 500, body: { code: 'UPLOAD_FAILED' } })
  t.is((await chunked.open()).body.response.length, 2)
  t.deepEqual(await db('objects').where({ owner_id: ana.id }), [])
})

test('an upload is accessible to its owner, but not to a credential that is limited to other prefixes', async t => {
  const { blobAs, makeUser, makeKey, db } = api()
  const [ana, ben] = [await makeUser(), await makeUser()]
  const { upload } = (await chunkedAs(blobAs(ana)).init({ prefix: 'a' })).body.response
  const missing = upload.replace(/^./, (c: string) => (c === '0' ? '1' : '0'))
  const limited = await makeKey(ana, {})
  await db('api_keys')
    .where({ id: limited.id })
    .update({ prefixes: ['b/'] })
  const all = (as: ReturnType<typeof chunkedAs>, token: string) => [
    as.part(token, 1, 'x'),
    as.status(token),
    as.complete(token),
    as.abort(token),
  ]
  for (const [who, token] of [
    [ben, upload],
    [ana, missing],
    [ana, `${upload}x`],
    [ana, ''],
  ] as const)
    for (const call of all(chunkedAs(blobAs(who)), token))
      t.like(await call, { status: 400, body: { code: 'INVALID_UPLOAD_TOKEN' } })
  const key = chunkedAs(blobAs(limited.key))
  for (const call of all(key, upload)) t.like(await call, { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  t.deepEqual((await key.open()).body.response, [])
  t.is((await chunkedAs(blobAs(ana)).open()).body.response.length, 1)
  t.deepEqual((await chunkedAs(blobAs(ben)).open()).body.response, [])
  for (const nothing of [undefined, 7, null])
    t.like(await chunkedAs(blobAs(ana)).complete(nothing), { status: 400, body: { code: 'INVALID_UPLOAD_TOKEN' } })
})

test('a key with the scope and a session may upload; others get the code of what they lack', async t => {
  const { blobAs, makeUser, makeKey } = api()
  const ana = await makeUser()
  const { upload } = (await chunkedAs(blobAs(ana)).init()).body.response
  const reader = await makeKey(ana, { scopes: ['blob:read'] })
  const writer = await makeKey(ana, { scopes: ['blob:write'] })
  const expired = await makeKey(ana, { expiresAt: new Date(0) })
  const calls = (who: string | undefined) => {
    const as = chunkedAs(blobAs(who))
    return [as.init(), as.part(upload, 1, 'x'), as.status(upload), as.open(), as.complete(''), as.abort('')]
  }
  for (const call of calls(reader.key)) t.like(await call, { status: 403, body: { code: 'MISSING_SCOPE' } })
  for (const who of [undefined, expired.key, `${ana.key}x`])
    for (const call of calls(who)) t.like(await call, { status: 401, body: { code: 'ACCESS_DENIED' } })
  for (const who of [writer.key, ana.session]) for (const call of calls(who).slice(0, 4)) t.is((await call).status, 200)
})

test('Init checks the same as an upload', async t => {
  const { blobAs, makeUser } = api()
  const ana = await makeUser({ plan: 'hobby-1' })
  const chunked = chunkedAs(blobAs(ana))
  const refused: [Record<string, string>, number, string][] = [
    [{ name: 'a b' }, 400, 'INVALID_OBJECT_NAME'],
    [{ prefix: '/a' }, 400, 'INVALID_OBJECT_PREFIX'],
    [{ private: 'perhaps' }, 400, 'INVALID_OBJECT_PRIVATE'],
    [{ security_hash: 'perhaps' }, 400, 'INVALID_OBJECT_SECURITY_HASH'],
    [{ expire: 'soon' }, 400, 'INVALID_OBJECT_EXPIRE'],
    [{ disposition: 'no' }, 400, 'INVALID_OBJECT_DISPOSITION'],
    [{ auto_download: 'no' }, 400, 'INVALID_STORAGE_AUTO_DOWNLOAD'],
    [{ cache_control: 'no' }, 400, 'INVALID_OBJECT_CACHE_CONTROL'],
    [{ metadata: '[]' }, 400, 'INVALID_OBJECT_METADATA'],
    [{ overwrite: 'no' }, 400, 'INVALID_PARAMETERS'],
    [{ filename: 'a.exe' }, 400, 'BLOCKED_FILE_TYPE'],
    [{ filename: 'a.b@c' }, 400, 'INVALID_FILE_TYPE'],
    [{ metadata: '{"a":"b"}' }, 403, 'UPGRADE_REQUIRED'],
    [{ expire: '1h' }, 403, 'UPGRADE_REQUIRED'],
    [{ cache_control: 'no-cache' }, 403, 'UPGRADE_REQUIRED'],
  ]
  for (const [fields, status, code] of refused) t.like(await chunked.init(fields), { status, body: { code } }, code)
  const free = chunkedAs(blobAs(await makeUser({ plan: 'free' })))
  t.like(await free.init(), { status: 401, body: { code: 'PERMISSION_DENIED' } })
  t.deepEqual((await chunked.open()).body.response, [])
  const bytes = (await chunked.init({ filename: 'blob', mime_type: 'image/png; a=b' })).body.response
  t.regex(bytes.id, /\.png$/)
})

test('without a plan an upload cannot continue, but it can be aborted', async t => {
  const { blobAs, makeUser, db } = api()
  const ana = await makeUser()
  const chunked = chunkedAs(blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  await chunked.part(upload, 1, 'x')
  await db('users').where({ id: ana.id }).update({ plan: 'free' })
  const later = chunkedAs(blobAs(ana.session)) // a key that was just used is believed for half a second
  t.like(await later.part(upload, 1, 'y'), { status: 401, body: { code: 'PERMISSION_DENIED' } })
  t.like(await later.complete(upload), { status: 401, body: { code: 'PERMISSION_DENIED' } })
  t.is((await later.abort(upload)).status, 200)
})

test('Init, parts and Complete cannot exceed the storage of the plan; replacing may', async t => {
  const { blobAs, makeUser, db } = api()
  const ana = await makeUser({ plan: 'hobby-1' })
  const chunked = chunkedAs(blobAs(ana))
  const used = (bytes: number) =>
    db('blob_usage').insert({ owner_id: ana.id, bytes }).onConflict('owner_id').merge({ bytes })
  const refused = { status: 403, body: { code: 'STORAGE_QUOTA_EXCEEDED' } }
  const included = 5 * 1024 ** 3
  const { upload } = (await chunked.init({ name: 'a' })).body.response
  await used(included - 9)
  t.is((await chunked.part(upload, 1, 'x'.repeat(9))).status, 200)
  t.is((await chunked.part(upload, 1, 'y'.repeat(9))).status, 200, 'sent again')
  t.like(await chunked.part(upload, 2, 'x'), refused)
  await used(included - 8)
  t.like(await chunked.complete(upload), refused)
  t.is((await chunked.status(upload)).status, 200)
  await used(included - 9)
  t.is((await chunked.complete(upload)).status, 200)
  t.like(await chunked.init({ name: 'b' }), refused)
  const none = (await chunked.init({ name: 'c', overwrite: 'true' })).body.response.upload
  t.like(await chunked.part(none, 1, 'y'), refused, 'there is nothing to replace')
  const over = (await chunked.init({ name: 'a', overwrite: 'true' })).body.response.upload
  t.is((await chunked.part(over, 1, 'y'.repeat(9))).status, 200)
  t.like(await chunked.part(over, 2, 'y'), refused, 'more than what goes')
  t.is((await chunked.complete(over)).status, 200)
})

test('concurrent parts, and parts without a length, take no more than the remaining room', async t => {
  const { blobAs, makeUser, db } = api()
  const ana = await makeUser({ plan: 'hobby-1' })
  const chunked = chunkedAs(blobAs(ana))
  const uploads = [await chunked.init({ name: 'a' }), await chunked.init({ name: 'b' })].map(
    i => i.body.response.upload,
  )
  await db('blob_usage').insert({ owner_id: ana.id, bytes: 5 * 1024 ** 3 - 25 })
  const refused = { status: 403, body: { code: 'STORAGE_QUOTA_EXCEEDED' } }
  const stream = (bytes: number) => new Blob([new Uint8Array(bytes)]).stream()
  t.like(await chunked.part(uploads[0], 1, stream(26)), refused)
  t.is((await chunked.part(uploads[0], 1, stream(25))).status, 200)
  t.is((await chunked.part(uploads[0], 1, stream(1))).status, 200, 'sent again, smaller')
  const six = await sixUnderWay(ana, (n, body) => chunked.part(uploads[n % 2], n + 2, body))
  const answers = await six.end()
  t.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 403, 403, 403, 403])
  t.is((await readOpenParts(db, ana.id)).bytes, 21)
  t.is((await chunked.part(uploads[1], 9, stream(4))).status, 200)
  t.like(await chunked.part(uploads[1], 10, stream(1)), refused)
})

test('an existing name is replaced only if Init requested it, at Init and at Complete', async t => {
  const { blobAs, makeUser } = api()
  const chunked = chunkedAs(blobAs(await makeUser()))
  const fields = { name: 'same' }
  const [first, second] = [await chunked.init(fields), await chunked.init(fields)].map(i => i.body.response.upload)
  const over = (await chunked.init({ ...fields, overwrite: 'true' })).body.response
  for (const [n, upload] of [first, second, over.upload].entries()) await chunked.part(upload, 1, `content ${n}`)
  t.is((await chunked.complete(first)).status, 200)
  t.like(await chunked.complete(second), { status: 409, body: { code: 'OBJECT_ALREADY_EXISTS' } })
  t.like(await chunked.init(fields), { status: 409, body: { code: 'OBJECT_ALREADY_EXISTS' } })
  t.is((await chunked.status(second)).status, 200, 'it stays open')
  t.is((await chunked.complete(over.upload)).status, 200)
  t.is(`${await contentOf(over.id)}`, 'content 2')
})

test('a part must have an allowed number, and neither be empty nor too large', async t => {
  const { blobAs, makeUser, db } = api()
  const ana = await makeUser()
  const chunked = chunkedAs(blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  t.like(await chunked.complete(upload), { status: 400, body: { code: 'NO_CHUNKS_UPLOADED' } })
  for (const part of ['0', '206', '-1', '1.5', 'x', '', '1e1', '99999'])
    t.like(await chunked.part(upload, part, 'x'), { status: 400, body: { code: 'INVALID_CHUNK_PART' } }, part)
  t.is((await chunked.part(upload, 205, 'x')).status, 200)
  t.like(await chunked.part(upload, 1, ''), { status: 400, body: { code: 'EMPTY_CHUNK' } })
  t.like(await chunked.part(upload, 1, new ReadableStream({ start: c => c.close() })), {
    status: 400,
    body: { code: 'EMPTY_CHUNK' },
  })
  const large = new Uint8Array(chunkBytes.max + 1)
  t.like(await chunked.part(upload, 1, large), { status: 413, body: { code: 'CHUNK_TOO_LARGE' } })
  t.like(await chunked.part(upload, 1, new Blob([large]).stream()), { status: 413, body: { code: 'CHUNK_TOO_LARGE' } })
  t.is((await chunked.part(upload, 1, large.subarray(1))).status, 200)
  t.like(await chunked.part(upload, 2, new FormData()), { status: 200 }, 'content type octet-stream was sent')
  const form = await blobAs(ana).request('PUT', `/v1/objects/chunked?upload=${upload}&part=2`, { body: new FormData() })
  t.like(form, { status: 415, body: { code: 'INVALID_CONTENT_TYPE' } })
  t.like(await chunked.part(upload, 2, 'x', { 'content-encoding': 'gzip' }), { status: 415 })
  await db('uploads')
    .where({ owner_id: ana.id })
    .update({ max_bytes: chunkBytes.max + 10 })
  t.like(await chunked.part(upload, 3, 'x'.repeat(100)), { status: 413, body: { code: 'FILE_TOO_LARGE' } })
})

test('the same Idempotency-Key opens one upload', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const key = { 'idempotency-key': 'once' }
  const [first, again] = [await chunked.init({ name: 'a' }, key), await chunked.init({ name: 'a' }, key)]
  t.deepEqual(again.body, first.body)
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.like(await chunked.init({ name: 'b' }, key), { status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
  await api().db('idempotency_keys').where({ user_id: ana.id }).update({ status: null })
  t.like(await chunked.init({ name: 'a' }, key), { status: 409, body: { code: 'IDEMPOTENCY_IN_PROGRESS' } })
  t.is((await chunked.open()).body.response.length, 1)
})

test('an Idempotency-Key that two upload tokens use opens nothing for the second', async t => {
  const { blobAs, makeUser } = api()
  const ana = await makeUser()
  const mint = async () => (await blobAs(ana).post('/v1/upload-tokens', '{}')).body.response.token
  const [one, two] = [await mint(), await mint()]
  const headers = { 'idempotency-key': 'k' }
  t.is((await chunkedAs(blobAs(one)).init({ name: 'a' }, headers)).status, 200)
  const other = await chunkedAs(blobAs(two)).init({ name: 'a' }, headers)
  t.like(other, { status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
})

test('open uploads are listed with their tokens, oldest first', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const first = (await chunked.init({ name: 'one', prefix: 'a/b', private: 'true' })).body.response
  const second = (await chunked.init({ name: 'two' })).body.response
  await chunked.part(first.upload, 1, 'four')
  const { response } = (await chunked.open()).body
  const shown = response.map(({ created_at, last_activity_at, ...item }: Record<string, string>) => item)
  t.deepEqual(shown, [
    { upload: first.upload, id: first.id, name: 'one', prefix: 'a/b', private: true, parts: 1, size_so_far: 4 },
    { upload: second.upload, id: second.id, name: 'two', private: false, parts: 0, size_so_far: 0 },
  ])
  t.true(response[0].last_activity_at > response[0].created_at)
})

test('eight uploads may be open, however many are requested concurrently; one that ends makes room', async t => {
  const chunked = chunkedAs(api().blobAs(await api().makeUser()))
  const inits = await Promise.all(Array.from({ length: 12 }, () => chunked.init({ security_hash: 'true' })))
  const opened = inits.filter(init => init.status === 200)
  t.is(opened.length, 8)
  t.like(
    inits.find(init => init.status !== 200),
    { status: 429, body: { code: 'TOO_MANY_OPEN_UPLOADS' } },
  )
  t.is((await chunked.abort(opened[0]!.body.response.upload)).status, 200)
  t.is((await chunked.init()).status, 200)
})

test('an account whose budget is spent still sends its parts', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  await api()
    .db('rate_limits')
    .where({ key: `budget/${ana.id}` })
    .update({ blocked_until: '2100-01-01' })
  t.like(await chunked.status(upload), { status: 429, body: { code: 'RATE_LIMITED' } })
  t.is((await chunked.part(upload, 1, 'x')).status, 200)
})

test('six parts of an account may be in progress, over all its uploads; the seventh has to wait', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const uploads = [await chunked.init({ name: 'a' }), await chunked.init({ name: 'b' })].map(
    i => i.body.response.upload,
  )
  const six = await sixUnderWay(ana, (n, body) => chunked.part(uploads[n % 2], n + 1, body))
  t.like(await chunked.part(uploads[0], 9, 'x'), { status: 429, body: { code: 'TOO_MANY_CONCURRENT_CHUNKS' } })
  for (const { status } of await six.end()) t.is(status, 200)
  t.is((await chunked.part(uploads[0], 9, 'x')).status, 200)
  t.is(await partsUnderWay(ana), 0)
})

test.serial('a client that disconnects during a part leaves nothing', async t => {
  const { blobUrl, makeUser, blobAs, store } = api()
  const ana = await makeUser()
  const chunked = chunkedAs(blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  const files = await store.files()
  const leaving = new AbortController()
  const body = new ReadableStream({ start: c => c.enqueue(new Uint8Array(1000)) })
  const init = {
    method: 'PUT',
    headers: { authorization: ana.key },
    body,
    duplex: 'half',
    signal: leaving.signal,
  } as const
  const sent = fetch(`${blobUrl}/v1/objects/chunked?upload=${upload}&part=1`, init)
  await comesTrue(async () => (await partsUnderWay(ana)) === 1)
  leaving.abort()
  await t.throwsAsync(sent, { any: true })
  await comesTrue(async () => (await partsUnderWay(ana)) === 0)
  t.is(await store.files(), files)
  t.deepEqual((await chunked.status(upload)).body.response.parts, [])
})

test.serial('a failing store is reported and keeps nothing of the part; the next attempt succeeds', async t => {
  const { blobAs, makeUser, store } = api()
  const chunked = chunkedAs(blobAs(await makeUser()))
  const { upload } = (await chunked.init()).body.response
  const files = await store.files()
  store.failing = true
  const failed = await chunked.part(upload, 1, 'x').finally(() => {
    store.failing = false
  })
  t.like(failed, { status: 503, body: { code: 'PUBLIC_STORAGE_UNAVAILABLE' } })
  t.is(await store.files(), files)
  t.is((await chunked.part(upload, 1, 'x')).status, 200)
  t.is(await store.files(), files + 1)
})
