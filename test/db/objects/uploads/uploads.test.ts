import test from 'ava'
import { createUser } from '../../../../db/accounts/accounts.ts'
import { type Db, transaction } from '../../../../db/database.ts'
import { findObject, manifestOf } from '../../../../db/objects/objects.ts'
import { allocateSegment } from '../../../../db/objects/segments.ts'
import {
  abortUpload,
  completeUpload,
  listIdleUploads,
  reclaimUpload,
  sweepUploads,
} from '../../../../db/objects/uploads/upload-ends.ts'
import { listUploadParts, storeUploadPart } from '../../../../db/objects/uploads/upload-parts.ts'
import {
  findUpload,
  listOpenUploads,
  type NewUpload,
  openUpload,
  readOpenParts,
} from '../../../../db/objects/uploads/uploads.ts'
import { newId } from '../../../../policy/ids.ts'
import { chunkBytes, wholeParts } from '../../../../policy/objects/uploads/chunked.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()
const day = 86_400

async function newOwner(db: Db): Promise<string> {
  return (await createUser(db, { name: 'Ana', email: `${newId()}@example.org`, plan: 'hobby-1' })).id
}

async function open(db: Db, ownerId: string, changes: Partial<NewUpload> = {}): Promise<string> {
  const upload = {
    owner_id: ownerId,
    wire: 'blob',
    bucket: 'public',
    key: `${newId()}.bin`,
    overwrite: false,
    content_type: 'application/octet-stream',
    cache_control: null,
    content_disposition: null,
    original_name: null,
    metadata: {},
    s3: null,
    expires_at: null,
    max_parts: 205,
    max_bytes: 1e10,
    upload_token_id: null,
    ...changes,
  } as NewUpload
  return (await transaction(db, trx => openUpload(trx, upload, 1000)))!
}

async function send(db: Db, uploadId: string, part: number, size: number = chunkBytes.min) {
  const segmentId = await allocateSegment(db)
  const body = { size, sha256: 'a'.repeat(64), md5: newId(), crc32: 1 }
  const outcome = await transaction(db, trx => storeUploadPart(trx, { uploadId, part, segmentId, body }))
  return { outcome, segmentId, md5: body.md5 }
}

const complete = (db: Db, id: string, ownerId: string) =>
  transaction(db, trx => completeUpload(trx, { id, ownerId }, { choose: wholeParts }))
const abort = (db: Db, id: string, ownerId: string) => transaction(db, trx => abortUpload(trx, { id, ownerId }))
const reclaim = (db: Db, id: string) => transaction(db, trx => reclaimUpload(trx, id, day))

const makeIdle = (db: Db, id: string) => db('uploads').where({ id }).update({ last_activity_at: '2000-01-01' })

async function refsOf(db: Db, ids: string[]): Promise<number[]> {
  const rows = await db('segments').whereIn('id', ids).select('id', 'refs')
  return ids.map(id => rows.find(row => row.id === id)?.refs ?? -1)
}

test('the parts become the object, in order; each segment has one reference, and replaced ones none', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const id = await open(db, ownerId, { key: 'film.bin' })
  const last = await send(db, id, 3, 1)
  const stale = await send(db, id, 1)
  const second = await send(db, id, 2)
  const first = await send(db, id, 1, chunkBytes.max)
  t.deepEqual(
    (await listUploadParts(db, id)).map(p => [p.part, p.size, p.segmentId]),
    [
      [1, chunkBytes.max, first.segmentId],
      [2, chunkBytes.min, second.segmentId],
      [3, 1, last.segmentId],
    ],
  )
  const done = await complete(db, id, ownerId)
  t.like(done, { parts: 3, replaced: false })
  const object = (await findObject(db, { ownerId, bucket: 'public', key: 'film.bin' }))!
  t.is(object.size, chunkBytes.max + chunkBytes.min + 1)
  t.regex(object.etag, /^[0-9a-f]{32}-3$/)
  const manifest = await manifestOf(db, object.generation)
  t.deepEqual(
    manifest.map(part => part.segmentId),
    [first, second, last].map(part => part.segmentId),
  )
  t.deepEqual(
    await refsOf(
      db,
      [first, second, last, stale].map(part => part.segmentId),
    ),
    [1, 1, 1, 0],
  )
  t.is(await complete(db, id, ownerId), undefined, 'a second time')
  t.is(await abort(db, id, ownerId), 'completed')
  t.is((await send(db, id, 4)).outcome, 'over')
  t.is(await findUpload(db, id, ownerId), undefined)
})

test('a segment is only a part until it is that of an object, also for a process of the version before', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const [id, older] = [await open(db, ownerId), await open(db, ownerId, { key: 'older' })]
  const parts = [await send(db, id, 1), await send(db, id, 2), await send(db, older, 1)]
  const ids = parts.map(({ segmentId }) => segmentId)
  const partOnly = () => db('segments').whereIn('id', ids).orderByRaw('array_position(?, id)', [ids]).pluck('part_only')
  await send(db, id, 2)
  t.deepEqual(await partOnly(), [true, true, true], 'also one that was replaced')
  await complete(db, id, ownerId)
  t.deepEqual(await partOnly(), [false, true, true])
  // It does not know the column.
  await db('segments').where({ id: ids[2]! }).increment('refs', 1)
  t.deepEqual(await partOnly(), [false, true, false])
})

test('the number of open uploads of an account is limited under concurrency', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const first = await open(db, ownerId)
  const {
    id: _,
    state: __,
    created_at,
    last_activity_at,
    part_count,
    part_bytes,
    ...request
  } = (await findUpload(db, first, ownerId))!
  const opened = await Promise.all(
    Array.from({ length: 12 }, () => transaction(db, trx => openUpload(trx, request, 8))),
  )
  t.is(opened.filter(Boolean).length, 7)
  await send(db, first, 1, 3)
  await send(db, first, 2, 4)
  const list = await listOpenUploads(db, ownerId)
  t.is(list.length, 8)
  t.like(list[0], { id: first, part_count: 2, part_bytes: 7 })
  t.deepEqual(await readOpenParts(db, ownerId), { bytes: 7, parts: 2 })
  await send(db, first, 2, 1)
  t.deepEqual(await readOpenParts(db, ownerId), { bytes: 4, parts: 2 })
  await abort(db, first, ownerId)
  t.truthy(await transaction(db, trx => openUpload(trx, request, 8)))
})

test('parts are limited by the size of the whole, which counts a part that is sent again once', async t => {
  const { db } = await database
  const id = await open(db, await newOwner(db), { max_bytes: 10 })
  t.is((await send(db, id, 1, 6)).outcome, 'stored')
  t.is((await send(db, id, 2, 5)).outcome, 'too large')
  t.is((await send(db, id, 1, 10)).outcome, 'stored')
})

test('another account finds, completes and aborts nothing', async t => {
  const { db } = await database
  const [ownerId, other] = [await newOwner(db), await newOwner(db)]
  const id = await open(db, ownerId)
  await send(db, id, 1)
  t.is(await findUpload(db, id, other), undefined)
  t.is(await complete(db, id, other), undefined)
  t.is(await abort(db, id, other), undefined)
  t.truthy(await complete(db, id, ownerId))
})

test('an upload with a gap, with a small part, or with none stays open', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const id = await open(db, ownerId)
  await t.throwsAsync(complete(db, id, ownerId), { message: /No part/ })
  await send(db, id, 1, chunkBytes.min - 1)
  await send(db, id, 3, 1)
  await t.throwsAsync(complete(db, id, ownerId), { message: 'Part 2 is missing.' })
  await send(db, id, 2)
  await t.throwsAsync(complete(db, id, ownerId), { message: /Part 1 is below 5 MB/ })
  await send(db, id, 1)
  t.is((await complete(db, id, ownerId))?.parts, 3)
})

test('only an upload that is still idle under its lock is aborted, with its parts', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const [idle, resumed] = [await open(db, ownerId), await open(db, ownerId)]
  const { segmentId } = await send(db, idle, 1)
  await Promise.all([idle, resumed].map(id => makeIdle(db, id)))
  const found = await listIdleUploads(db, day)
  t.true(found.includes(idle) && found.includes(resumed))
  await send(db, resumed, 1)
  t.is(await reclaim(db, resumed), undefined)
  t.like(await reclaim(db, idle), { upload: { id: idle }, parts: [{ segmentId }] })
  t.is(await reclaim(db, idle), undefined)
  t.deepEqual(await refsOf(db, [segmentId]), [0])
  t.is(await abort(db, idle, ownerId), 'aborted')
  await db('uploads').where({ id: idle }).update({ ended_at: '2000-01-01' })
  await sweepUploads(db)
  t.is(await abort(db, idle, ownerId), undefined)
  t.truthy(await findUpload(db, resumed, ownerId))
})

// Alone: it looks at who waits in this database.
test.serial(
  'of parts of two uploads that come at the same moment only those have room that the account has room for',
  async t => {
    const { db } = await database
    const ownerId = await newOwner(db)
    const uploads = [await open(db, ownerId), await open(db, ownerId)]
    const store = async (trx: Db, uploadId: string) => {
      const body = { size: chunkBytes.min, sha256: 'a'.repeat(64), md5: newId(), crc32: 1 }
      return storeUploadPart(trx, {
        uploadId,
        part: 1,
        segmentId: await allocateSegment(trx),
        body,
        limit: chunkBytes.min * 1.5,
      })
    }
    const first = await db.transaction()
    t.is(await store(first, uploads[0]!), 'stored')
    const second = transaction(db, trx => store(trx, uploads[1]!))
    const waits = async () => {
      const { rows } = await db.raw(
        `select 1 from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`,
      )
      return rows.length > 0
    }
    await Promise.race([second, comesTrue(waits)])
    await first.commit()
    t.is(await second, 'no room')
  },
)

test('concurrent complete, abort, reclaim and late part: one outcome, and every segment belongs to the object or is unused', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  for (let round = 0; round < 40; round++) {
    const key = `${round}.bin`
    const id = await open(db, ownerId, { key })
    const parts = [await send(db, id, 1), await send(db, id, 2)]
    if (round % 2) await makeIdle(db, id)
    const [completed, again, aborted, reclaimed, late] = await Promise.all([
      complete(db, id, ownerId),
      complete(db, id, ownerId),
      round % 3 ? abort(db, id, ownerId) : 'completed',
      reclaim(db, id),
      send(db, id, 2),
    ])
    const object = await findObject(db, { ownerId, bucket: 'public', key })
    t.is(object !== undefined, Boolean(completed || again))
    t.is([completed, again, aborted === 'aborted' && !reclaimed, reclaimed].filter(Boolean).length, 1)
    const held = object ? (await manifestOf(db, object.generation)).map(part => part.segmentId) : []
    const all = [...parts, late].map(part => part.segmentId)
    t.deepEqual(
      await refsOf(db, all),
      all.map(segment => (held.includes(segment) ? 1 : 0)),
    )
    t.deepEqual(await listUploadParts(db, id), [])
    if (object) t.is(held.length, 2)
  }
})
