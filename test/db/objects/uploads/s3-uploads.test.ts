import test from 'ava'
import { createUser } from '../../../../db/accounts/accounts.ts'
import { type Db, transaction } from '../../../../db/database.ts'
import { setTags } from '../../../../db/objects/object-changes.ts'
import { findObject } from '../../../../db/objects/objects.ts'
import { allocateSegment } from '../../../../db/objects/segments.ts'
import { findUploadResult, listOpenS3Uploads } from '../../../../db/objects/uploads/s3-uploads.ts'
import { abortUpload, completeUpload } from '../../../../db/objects/uploads/upload-ends.ts'
import { storeUploadPart } from '../../../../db/objects/uploads/upload-parts.ts'
import { findUpload, listOpenUploads, type NewUpload, openUpload } from '../../../../db/objects/uploads/uploads.ts'
import { newId } from '../../../../policy/ids.ts'
import { put } from '../../../kit/objects/objects.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()

const newOwner = async (db: Db): Promise<string> =>
  (await createUser(db, { name: 'Ana', email: `${newId()}@example.org`, plan: 'hobby-1' })).id

async function open(db: Db, ownerId: string, key: string, changes: Partial<NewUpload> = {}): Promise<string> {
  const upload: NewUpload = {
    owner_id: ownerId,
    wire: 's3',
    bucket: 'private',
    key,
    overwrite: true,
    content_type: 'text/plain',
    cache_control: null,
    content_disposition: null,
    original_name: null,
    metadata: {},
    s3: { tags: { a: 'b' } },
    expires_at: null,
    max_parts: 10_000,
    max_bytes: 1e10,
    upload_token_id: null,
    ...changes,
  }
  return (await transaction(db, trx => openUpload(trx, upload, 3)))!
}

const all = { from: '', to: '\u{10ffff}', after: { key: '', id: '' }, limit: 100 }

test('open uploads of a bucket are listed by the bytes of the key, then by id, after a position', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const ids = [await open(db, ownerId, '\u{10000}'), await open(db, ownerId, '\u{e000}'), await open(db, ownerId, 'Z')]
  const range = { ...all, ownerId, bucket: 'private' as const }
  const listed = await listOpenS3Uploads(db, range)
  t.deepEqual(
    listed.map(({ id }) => id),
    [ids[2], ids[1], ids[0]],
  )
  t.deepEqual(listed[0]?.s3, { tags: { a: 'b' } })
  const rest = await listOpenS3Uploads(db, { ...range, after: { key: 'Z', id: ids[2]! } })
  t.is(rest.length, 2)
  t.is((await listOpenS3Uploads(db, { ...range, limit: 1 })).length, 1)
  t.is((await listOpenS3Uploads(db, { ...range, from: 'Z', to: '[' })).length, 1)
  t.deepEqual(await listOpenS3Uploads(db, { ...range, bucket: 'public' }), [])
})

test('uploads of the two wires have limits and lists of their own', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const opened = []
  for (const wire of ['s3', 's3', 's3', 's3', 'blob', 'blob', 'blob', 'blob'] as const)
    opened.push((await open(db, ownerId, newId(), { wire })) !== undefined)
  t.deepEqual(opened, [true, true, true, false, true, true, true, false])
  t.is((await listOpenS3Uploads(db, { ...all, ownerId, bucket: 'private' })).length, 3)
  const [blob] = await listOpenUploads(db, ownerId)
  t.is(blob?.wire, 'blob')
  t.deepEqual(
    [await findUpload(db, blob!.id, ownerId, 's3'), (await findUpload(db, blob!.id, ownerId))?.id],
    [undefined, blob!.id],
  )
})

test('the answer to a completion is found by its account, bucket and key until the row is swept', async t => {
  const { db } = await database
  const ownerId = await newOwner(db)
  const id = await open(db, ownerId, 'done')
  const segmentId = await allocateSegment(db)
  const body = { size: 3, sha256: 'a'.repeat(64), md5: 'b'.repeat(32), crc32: 1 }
  await transaction(db, trx => storeUploadPart(trx, { uploadId: id, part: 1, segmentId, body, checksum: 'sum' }))
  const checksum = { algorithm: 'CRC32', value: 'whole', type: 'FULL_OBJECT' } as const
  const name = { ownerId, bucket: 'private', key: 'done' } as const
  t.is(await findUploadResult(db, id, name), undefined, 'it is open')
  const refuse = () => {
    throw new Error('no')
  }
  const complete = (sum: () => typeof checksum) =>
    transaction(db, trx => completeUpload(trx, { id, ownerId }, { choose: parts => parts, checksum: sum }))
  await t.throwsAsync(complete(refuse), { message: 'no' })
  t.is((await findUpload(db, id, ownerId, 's3'))?.state, 'open')
  const { object } = (await complete(() => checksum))!
  t.deepEqual(object.s3, { tags: { a: 'b' }, checksum })
  t.deepEqual(await findUploadResult(db, id, name), { etag: object.etag, checksum })
  for (const other of [{ key: 'other' }, { bucket: 'public' }, { ownerId: await newOwner(db) }] as const)
    t.is(await findUploadResult(db, id, { ...name, ...other }), undefined)
  const aborted = await open(db, ownerId, 'done')
  await transaction(db, trx => abortUpload(trx, { id: aborted, ownerId }))
  t.is(await findUploadResult(db, aborted, name), undefined)
})

test('tags are replaced, and nothing else of an object', async t => {
  const { db } = await database
  const name = { ownerId: await newOwner(db), bucket: 'private', key: 'tagged' } as const
  const set = (tags: Record<string, string>) => transaction(db, trx => setTags(trx, name, tags))
  t.false(await set({ a: 'b' }), 'there is no such object')
  const { object } = await put(db, name, 'x')
  t.true(await set({ a: 'b' }))
  t.deepEqual(await findObject(db, name), { ...object, s3: { tags: { a: 'b' } } })
  await db('objects')
    .where({ owner_id: name.ownerId })
    .update({ s3: { contentLanguage: 'de', tags: { a: 'b' } } })
  t.true(await set({}))
  t.deepEqual((await findObject(db, name))?.s3, { contentLanguage: 'de', tags: {} })
  await db('objects').where({ owner_id: name.ownerId }).update({ expires_at: '2000-01-01' })
  t.false(await set({ a: 'c' }), 'it has expired')
})
