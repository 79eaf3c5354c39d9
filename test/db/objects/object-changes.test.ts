import test from 'ava'
import { type Db, transaction } from '../../../db/database.ts'
import { readUsage } from '../../../db/objects/blob-usage.ts'
import { changeObject, copyObject, moveObject } from '../../../db/objects/object-changes.ts'
import { findObject, manifestOf } from '../../../db/objects/objects.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { Bucket, ObjectName } from '../../../policy/objects/object-names.ts'
import { put } from '../../kit/objects/objects.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const changed = { metadata: { of: 'me' }, cacheControl: 'immutable', originalName: 'a.txt' }

/** An account with one object of five bytes. */
async function account() {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  const name = (key: string, bucket: Bucket = 'public'): ObjectName => ({ ownerId, bucket, key })
  const stored = await put(db, name('a'), 'hello', { changes: changed })
  const refs = async (id: string) => (await db('segments').where({ id }).first('refs')).refs
  const change = <T>(work: (trx: Db) => Promise<T>) => transaction(db, work)
  return { db, ownerId, name, stored, refs, change }
}

const refusal = (code: string) => ({ instanceOf: CodedError, code })

test('a move gives another name and a new birth; content, headers and usage stay', async t => {
  const { db, ownerId, name, stored, refs, change } = await account()
  const moved = await change(trx => moveObject(trx, name('a'), name('b/c', 'private')))
  t.false(moved?.replaced)
  const { bucket, key, birth, created_at, ...rest } = moved!.object
  t.deepEqual([bucket, key], ['private', 'b/c'])
  t.not(birth, stored.object.birth)
  t.like(stored.object, { ...rest })
  t.is(await findObject(db, name('a')), undefined)
  t.is((await manifestOf(db, rest.generation)).length, 1)
  t.is(await refs(stored.segmentId), 1)
  t.deepEqual(await readUsage(db, ownerId), { objects: 1, bytes: 5 })
})

test('a move onto another object requires overwrite, and then one of both is left', async t => {
  const { db, ownerId, name, refs, change } = await account()
  const other = await put(db, name('b'), 'other one')
  await t.throwsAsync(
    change(trx => moveObject(trx, name('a'), name('b'))),
    refusal('OBJECT_ALREADY_EXISTS'),
  )
  await t.throwsAsync(
    change(trx => moveObject(trx, name('a'), name('a'))),
    refusal('SAME_OBJECT'),
  )
  t.true((await change(trx => moveObject(trx, name('a'), name('b'), { overwrite: true })))?.replaced)
  t.is(await refs(other.segmentId), 0)
  t.deepEqual(await readUsage(db, ownerId), { objects: 1, bytes: 5 })
  t.is(await change(trx => moveObject(trx, name('a'), name('c'))), undefined)
})

test('a move can set the expiry; a copy of an expired object fails', async t => {
  const { name, change } = await account()
  const changes = { expiresAt: new Date(0) }
  const moved = await change(trx => moveObject(trx, name('a'), name('a-ex0'), { changes }))
  t.deepEqual(moved?.object.expires_at, new Date(0))
  t.is(await change(trx => copyObject(trx, name('a-ex0'), name('b'))), undefined)
  t.is(await change(trx => changeObject(trx, name('a-ex0'), { metadata: {} })), undefined)
})

test('a copy is a second object with the same segments, and counts', async t => {
  const { db, ownerId, name, stored, refs, change } = await account()
  await db('quota_leases').insert({
    id: 'x',
    owner_id: ownerId,
    bytes: 9,
    expires_at: db.raw(`now() + interval '1 hour'`),
  })
  const charge = { leaseId: 'x', bytes: 5 }
  const copied = await change(trx => copyObject(trx, name('a'), name('b'), { changes: { cacheControl: null }, charge }))
  t.like(copied?.object, { size: 5, etag: stored.object.etag, cache_control: null, original_name: 'a.txt' })
  t.deepEqual(copied?.object.metadata, { of: 'me' })
  t.not(copied?.object.birth, stored.object.birth)
  t.is(await refs(stored.segmentId), 2)
  t.deepEqual(await readUsage(db, ownerId), { objects: 2, bytes: 10 })
  const little = { charge: { leaseId: 'x', bytes: 4 } }
  await t.throwsAsync(
    change(trx => copyObject(trx, name('a'), name('c'), little)),
    refusal('STORAGE_QUOTA_EXCEEDED'),
  )
  await t.throwsAsync(
    change(trx => copyObject(trx, name('a'), name('b'))),
    refusal('OBJECT_ALREADY_EXISTS'),
  )
  t.true((await change(trx => copyObject(trx, name('a'), name('b'), { overwrite: true })))?.replaced)
  t.is(await refs(stored.segmentId), 2)
})

test('headers change in place: birth, etag, content and headers left out stay', async t => {
  const { name, stored, change } = await account()
  const once = await change(trx => changeObject(trx, name('a'), { contentDisposition: 'inline', metadata: {} }))
  const { birth, etag, generation, cache_control } = stored.object
  t.like(once, { birth, etag, generation, cache_control, content_disposition: 'inline' })
  t.deepEqual(once?.metadata, {})
  const again = await change(trx => changeObject(trx, name('a'), { contentDisposition: null }))
  t.is(again?.content_disposition, null)
  t.is(await change(trx => changeObject(trx, name('none'), {})), undefined)
})
