import test from 'ava'
import { transaction } from '../../../db/database.ts'
import { foldUsage, readTakenBytes, readUsage, recountUsage, sumObjects } from '../../../db/objects/blob-usage.ts'
import { removeObject, storeObject } from '../../../db/objects/objects.ts'
import * as segments from '../../../db/objects/segments.ts'
import { StorageQuota } from '../../../db/objects/storage-quota.ts'
import { CodedError } from '../../../policy/errors.ts'
import { newId } from '../../../policy/ids.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { drawnPart, put } from '../../kit/objects/objects.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

/** Writes whose objects are not limited. */
const uncounted = { objects: 0, maxObjects: Number.POSITIVE_INFINITY }

const database = testDatabase()
const closing: StorageQuota[] = []
test.after.always('give back what was leased', async () => {
  for (const quota of closing) await quota.close()
})
const gigabyte = 1024 ** 3
const refusal = { instanceOf: CodedError, code: 'STORAGE_QUOTA_EXCEEDED' }

/** An account, and as many processes as are asked for. */
async function account(processes = 1) {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  const quotas = Array.from({ length: processes }, () => new StorageQuota(db))
  closing.push(...quotas)
  const name = (key: string) => ({ ownerId, bucket: 'public' as const, key })
  /** Stores a text as one of the processes does. */
  const store = (key: string, text: string, limit: number, quota = quotas[0]!, overwrite = false) =>
    quota.charging({ ownerId, bytes: Buffer.byteLength(text), limit, ...uncounted }, charge =>
      put(db, name(key), text, { charge, overwrite }),
    )
  return { db, ownerId, quotas, name, store }
}

test('the limit holds to the byte with two concurrent processes', async t => {
  const { db, ownerId, quotas, store } = await account(2)
  const tries = await Promise.allSettled(
    Array.from({ length: 30 }, (_, n) => store(`${n}`, 'x'.repeat(10), 105, quotas[n % 2])),
  )
  t.is(tries.filter(one => one.status === 'fulfilled').length, 10)
  for (const one of tries) if (one.status === 'rejected') t.is(one.reason.code, 'STORAGE_QUOTA_EXCEEDED')
  t.deepEqual(await readUsage(db, ownerId), { objects: 10, bytes: 100 })
  await store('last', 'x'.repeat(5), 105)
  await t.throwsAsync(store('more', 'x', 105), refusal)
})

test('parts of open uploads are no room for objects, but for that which they become', async t => {
  const { db, ownerId, quotas, store } = await account()
  const id = newId()
  const upload = { id, owner_id: ownerId, bucket: 'public', key: 'large', content_type: 'text/plain' }
  await db('uploads').insert({ ...upload, max_parts: 10, max_bytes: 100 })
  const { segmentId } = await drawnPart(db, 'part')
  await db('upload_parts').insert({ upload_id: id, part: 1, segment_id: segmentId, size: 60, md5: 'x' })
  await t.throwsAsync(store('a', 'x'.repeat(41), 100), refusal)
  await store('a', 'x'.repeat(40), 100)
  const completing = { ...uncounted, ownerId, bytes: 60, limit: 100, completing: id }
  await t.notThrowsAsync(quotas[0]!.charging(completing, async () => {}))
  await t.throwsAsync(
    quotas[0]!.charging({ ...completing, completing: undefined }, async () => {}),
    refusal,
  )
  await db('upload_parts').where({ upload_id: id }).update({ size: 50 })
  await store('b', 'x'.repeat(10), 100)
  await db('upload_parts').where({ upload_id: id }).delete()
  await store('c', 'x'.repeat(50), 100)
})

test('far from the limit one lease serves many writes, and is given back completely', async t => {
  const { db, ownerId, quotas, store } = await account()
  for (let n = 0; n < 20; n++) await store(`${n}`, 'hello', 5 * gigabyte)
  t.is((await db('quota_leases').where({ owner_id: ownerId })).length, 1)
  await quotas[0]!.close()
  t.is(await readTakenBytes(db, ownerId), 100)
  t.deepEqual(await readUsage(db, ownerId), { objects: 20, bytes: 100 })
})

test('leased bytes count before they are written, and a refusal gives them back', async t => {
  const { db, ownerId, quotas, store } = await account(2)
  const under = quotas[0]!.charging({ ownerId, bytes: 60, limit: 100, ...uncounted }, async () => {
    await t.throwsAsync(store('other', 'x'.repeat(41), 100, quotas[1]), refusal)
    await store('fits', 'x'.repeat(40), 100, quotas[1])
    throw new CodedError('UPLOAD_FAILED')
  })
  await t.throwsAsync(under, { instanceOf: CodedError, code: 'UPLOAD_FAILED' })
  await store('other', 'x'.repeat(60), 100, quotas[1])
  t.deepEqual(await readUsage(db, ownerId), { objects: 2, bytes: 100 })
})

test('bytes of a write that may have been stored are not given to the next one', async t => {
  const { ownerId, quotas } = await account()
  const slice = 64 * 1024 ** 2
  /** The lease that a write of so many bytes takes from. */
  const leaseOf = async (bytes: number, end?: Error) => {
    let leaseId = ''
    await quotas[0]!
      .charging({ ownerId, bytes, limit: 5 * gigabyte, ...uncounted }, async charge => {
        leaseId = charge.leaseId
        if (end) throw end
      })
      .catch(error => t.is(error, end))
    return leaseId
  }
  const first = await leaseOf(1000, new CodedError('UPLOAD_FAILED'))
  t.is(await leaseOf(1000, new S3Error('PreconditionFailed')), first)
  t.is(await leaseOf(slice + 1000, new Error('the answer is lost')), first, 'a refusal has given them back')
  t.not(await leaseOf(slice + 1000), first)
})

test('a write that needs more than the slice of its process succeeds up to the limit', async t => {
  const { ownerId, quotas } = await account()
  await quotas[0]!.charging({ ownerId, bytes: 10, limit: 2 * gigabyte, ...uncounted }, async () => {})
  await t.notThrowsAsync(
    quotas[0]!.charging({ ownerId, bytes: 2 * gigabyte, limit: 2 * gigabyte, ...uncounted }, async () => {}),
  )
})

test('the leases of a killed process expire', async t => {
  const { db, ownerId, quotas, store } = await account(2)
  let end: () => void = () => {}
  const hanging = new Promise<void>(resolve => {
    end = resolve
  })
  const started = new Promise<void>((resolve, reject) => {
    quotas[0]!
      .charging({ ownerId, bytes: 80, limit: 100, ...uncounted }, async () => {
        resolve()
        await hanging
      })
      .catch(reject)
  })
  await started
  await t.throwsAsync(store('x', 'x'.repeat(30), 100, quotas[1]), refusal)
  await db('quota_leases')
    .where({ owner_id: ownerId })
    .update({ expires_at: db.raw(`now() - interval '1 s'`) })
  await store('x', 'x'.repeat(30), 100, quotas[1])
  end()
  t.is((await readUsage(db, ownerId)).bytes, 30)
})

test('a write whose lease expired before its commit stores nothing: it gets a new lease, or is refused', async t => {
  const { db, ownerId, quotas, name, store } = await account(2)
  await store('old', 'x', 100)
  const runOut = () =>
    db('quota_leases')
      .where({ owner_id: ownerId })
      .update({ expires_at: db.raw(`now() - interval '1 s'`) })
  for (const overwrite of [false, true]) {
    let writes = 0
    const late = (limit: number, between: () => Promise<unknown>) =>
      quotas[0]!.charging({ ownerId, bytes: 40, limit, ...uncounted }, async charge => {
        if (++writes === 1) await runOut()
        if (writes === 1) await between()
        return put(db, name(overwrite ? 'old' : 'late'), 'x'.repeat(40), { charge, overwrite })
      })
    // While it stood still another process has taken the room that it had leased.
    const full = (await readUsage(db, ownerId)).bytes + 40
    await t.throwsAsync(
      late(full, () => store(`taken ${overwrite}`, 'x', full, quotas[1])),
      refusal,
    )
    t.is((await readUsage(db, ownerId)).bytes, full - 39)
    writes = 0
    await late(200, async () => {})
    t.is(writes, 2)
  }
  t.deepEqual(await readUsage(db, ownerId), await sumObjects(db, ownerId))
})

test('a process that takes over an expired lease waits for the write that commits with it', async t => {
  const { db, ownerId, quotas, name, store } = await account(2)
  let second: Promise<unknown> = Promise.resolve()
  await quotas[0]!.charging({ ownerId, bytes: 60, limit: 100, ...uncounted }, charge =>
    transaction(db, async trx => {
      const part = await drawnPart(db, 'x'.repeat(60))
      const object = { ...name('first'), contentType: 'text/plain', etag: 'e' }
      await segments.attachSegment(db, part.segmentId, part.body)
      await storeObject(trx, object, [part], { charge })
      await db('quota_leases')
        .where({ owner_id: ownerId })
        .update({ expires_at: db.raw(`now() - interval '1 s'`) })
      second = store('second', 'x'.repeat(60), 100, quotas[1])
      second.catch(() => {})
      await comesTrue(async () => {
        const { rows } = await db.raw(
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%quota_leases%'`,
        )
        return rows.length > 0
      })
    }),
  )
  await t.throwsAsync(second, refusal)
})

test('an overwrite settles the difference, and a deletion gives bytes back', async t => {
  const { db, ownerId, name, store, quotas } = await account()
  await store('a', 'x'.repeat(40), 100)
  await store('a', 'x'.repeat(50), 100, quotas[0], true)
  t.deepEqual(await readUsage(db, ownerId), { objects: 1, bytes: 50 })
  await transaction(db, trx => foldUsage(trx, ownerId))
  t.deepEqual(await readUsage(db, ownerId), { objects: 1, bytes: 50 })
  await transaction(db, trx => removeObject(trx, name('a')))
  t.deepEqual(await readUsage(db, ownerId), { objects: 0, bytes: 0 })
  t.deepEqual(await sumObjects(db, ownerId), { objects: 0, bytes: 0 })
})

test('an account has a number of objects, also of empty ones, and room again after a deletion', async t => {
  const { db, ownerId, quotas, name } = await account(2)
  const write = (key: string, { objects = 1, overwrite = false, quota = quotas[0]! } = {}) =>
    quota.charging({ ownerId, bytes: 0, limit: 10 * gigabyte, objects, maxObjects: 3 }, charge =>
      put(db, name(key), '', { charge, overwrite }),
    )
  const tries = await Promise.allSettled(['a', 'b', 'c', 'd', 'e'].map(key => write(key)))
  t.is(tries.filter(one => one.status === 'fulfilled').length, 3)
  for (const one of tries) if (one.status === 'rejected') t.is(one.reason.code, 'STORAGE_QUOTA_EXCEEDED')
  await t.throwsAsync(write('f', { quota: quotas[1] }), refusal, 'in another process')
  t.true((await write('a', { objects: 0, overwrite: true })).replaced)
  await db.transaction(trx => removeObject(trx, name('a')))
  await t.throwsAsync(write('b'), { instanceOf: CodedError, code: 'OBJECT_ALREADY_EXISTS' })
  await write('g')
  await t.throwsAsync(write('h'), { ...refusal, message: /^The account has as many objects as its plan allows/ })
  t.deepEqual(await readUsage(db, ownerId), { objects: 3, bytes: 0 })
})

test('an object that is larger than its reservation is not stored', async t => {
  const { db, ownerId, name } = await account()
  await db('quota_leases').insert({
    id: 'x',
    owner_id: ownerId,
    bytes: 9,
    expires_at: db.raw(`now() + interval '1 hour'`),
  })
  const charge = { leaseId: 'x', bytes: 3 }
  await t.throwsAsync(put(db, name('a'), 'four', { charge }), refusal)
  await put(db, name('a'), '12345')
  await put(db, name('a'), '12345678', { charge, overwrite: true })
  await t.throwsAsync(put(db, name('a'), '123456789abc', { charge, overwrite: true }), refusal)
  t.deepEqual(await readUsage(db, ownerId), { objects: 1, bytes: 8 })
})

test('a recount finds manual changes, and is zero otherwise', async t => {
  const { db, ownerId, store } = await account()
  await store('a', 'four', gigabyte)
  t.deepEqual(await transaction(db, trx => recountUsage(trx, ownerId)), { objects: 0, bytes: 0 })
  await db('blob_usage').where({ owner_id: ownerId }).update({ bytes: 1000, objects: 9 })
  const off = await transaction(db, trx => recountUsage(trx, ownerId))
  t.true(off.bytes < 0)
  t.deepEqual(await readUsage(db, ownerId), { objects: 1, bytes: 4 })
})
