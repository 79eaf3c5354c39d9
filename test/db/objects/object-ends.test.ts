import test from 'ava'
import { type Db, transaction } from '../../../db/database.ts'
import { checkReceiptLines, listReceiptLines, listReceipts, openReceipt } from '../../../db/objects/blob-receipts.ts'
import { listRules, saveRules } from '../../../db/objects/blob-rules.ts'
import {
  applyRule,
  listDeletingRules,
  reclaimIdleUploads,
  removeExpiredObjects,
} from '../../../db/objects/object-ends.ts'
import { findObject, lockNames, type ObjectRow } from '../../../db/objects/objects.ts'
import { completeUpload, reclaimUpload } from '../../../db/objects/uploads/upload-ends.ts'
import { newId } from '../../../policy/ids.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { put } from '../../kit/objects/objects.ts'
import { idleUpload, rule } from '../../kit/objects/upkeep.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const day = 24 * 3600

/** An account, and what tests do with its objects. */
async function account() {
  const { db } = await database
  const ownerId = (await rows(db).user()).id
  const name = (key: string, bucket: 'public' | 'private' | 'legacy' = 'public') => ({ ownerId, bucket, key })
  return {
    db,
    ownerId,
    name,
    put: (key: string, bucket?: 'private' | 'legacy') => put(db, name(key, bucket), key),
    find: (key: string) => findObject(db, name(key)),
    age: (key: string, days: number) =>
      db('objects')
        .where({ owner_id: ownerId, key })
        .update({ created_at: new Date(Date.now() - days * day * 1000) }),
  }
}

async function receipt(db: Db): Promise<string> {
  const id = newId()
  await openReceipt(db, id, 'expiry')
  return id
}

/** An object that a rule would remove, and a receipt for its removal. */
async function overdue(key: string) {
  const found = await account()
  const { db, ownerId, put, age } = found
  await put(key)
  await age(key, 8)
  await saveRules(db, ownerId, [rule('logs/', { delete_after_days: 7 })])
  await activate(db, ownerId)
  return { ...found, id: await receipt(db) }
}

const activate = (db: Db, ownerId: string) =>
  db('blob_rules')
    .where({ owner_id: ownerId })
    .whereNotNull('delete_after_days')
    .update({ active_from: new Date(0) })

/** Every step of every rule of one account. */
async function applyRules(db: Db, ownerId: string, receiptId: string): Promise<void> {
  for (const walk of (await listDeletingRules(db)).filter(walk => walk.ownerId === ownerId))
    for (let at: typeof walk | undefined = walk; at; ) at = await applyRule(db, receiptId, at)
}

test.serial('expired objects are deleted, with a receipt line of object, reason, bytes and proof', async t => {
  const { db, ownerId, name, put } = await account()
  const { segmentId, object } = await put('a.txt')
  await put('kept.txt')
  const over = new Date(Date.now() - 1000)
  await db('objects').where({ owner_id: ownerId, key: 'a.txt' }).update({ expires_at: over })
  const id = await receipt(db)
  while ((await removeExpiredObjects(db, id)) > 0);
  await checkReceiptLines(db, id)
  const [line, ...others] = (await listReceiptLines(db, id, 100)).filter(({ owner_id }) => owner_id === ownerId)
  t.deepEqual(others, [])
  t.is(line!.subject, objectId(name('a.txt')))
  t.is(line!.why, `expired at ${over.toISOString()}`)
  t.deepEqual([line!.bytes, line!.proof], [object.size, 'no such object'])
  t.deepEqual(line!.bodies, [{ id: segmentId, state: 'waits for the sweep' }])
  t.is((await db('objects').where({ owner_id: ownerId })).length, 1)
})

test.serial('an object whose expiry is removed while the sweep waits for its name stays', async t => {
  const { db, ownerId, name, put, find } = await account()
  await put('a.txt')
  const mine = () => db('objects').where({ owner_id: ownerId })
  await mine().update({ expires_at: new Date(Date.now() - 1000) })
  const id = await receipt(db)
  let sweeping: Promise<number> | undefined
  await transaction(db, async trx => {
    await lockNames(trx, [name('a.txt')])
    sweeping = removeExpiredObjects(db, id)
    await waiting(db)
    await trx('objects').where({ owner_id: ownerId }).update({ expires_at: null })
  })
  await sweeping
  t.truthy(await find('a.txt'))
  t.deepEqual(
    (await listReceiptLines(db, id, 100)).filter(line => line.owner_id === ownerId),
    [],
  )
})

test.serial(
  'an active rule deletes objects that are old enough below its prefix, but none of a longer rule and no legacy objects',
  async t => {
    const { db, ownerId, put, age } = await account()
    for (const key of ['logs/old.txt', 'logs/new.txt', 'logs/keep/old.txt', 'logsold.txt', 'other/old.txt'])
      await put(key)
    await put('logs/mine.txt', 'private')
    await put('logs/legacy.txt', 'legacy')
    for (const key of [
      'logs/old.txt',
      'logs/keep/old.txt',
      'logsold.txt',
      'other/old.txt',
      'logs/mine.txt',
      'logs/legacy.txt',
    ])
      await age(key, 8)
    await saveRules(db, ownerId, [rule('logs/', { delete_after_days: 7 }), rule('logs/keep/')])
    const id = await receipt(db)
    const left = async () => (await db('objects').where({ owner_id: ownerId }).orderBy('key').pluck('key')) as string[]
    await applyRules(db, ownerId, id)
    t.is((await left()).length, 7)
    await activate(db, ownerId)
    await applyRules(db, ownerId, id)
    t.deepEqual(await left(), ['logs/keep/old.txt', 'logs/legacy.txt', 'logs/new.txt', 'logsold.txt', 'other/old.txt'])
    const lines = await listReceiptLines(db, id, 100)
    t.deepEqual(lines.map(line => line.why).sort(), Array(2).fill('older than the 7 days of the rule of logs/'))
  },
)

for (const [edit, change] of Object.entries({
  'keeps longer': [rule('logs/', { delete_after_days: 30 })],
  'is deleted': [],
  'is joined by a longer one': [rule('logs/', { delete_after_days: 7 }), rule('logs/a/')],
}))
  test.serial(`an edited rule wins over its sweep: it ${edit}`, async t => {
    const { db, ownerId, name, id, find } = await overdue('logs/a/1.txt')
    let sweeping: Promise<void> | undefined
    await transaction(db, async trx => {
      await lockNames(trx, [name('logs/a/1.txt')])
      sweeping = applyRules(db, ownerId, id)
      await waiting(db) // it has found the object, and waits for its name
      await saveRules(db, ownerId, change)
    })
    await sweeping
    t.truthy(await find('logs/a/1.txt'))
    t.deepEqual(await listReceiptLines(db, id, 100), [])
  })

test.serial('a sweep waits for a concurrent change of its rule, and obeys it', async t => {
  const { db, ownerId, id, find } = await overdue('logs/1.txt')
  let sweeping: Promise<void> | undefined
  await transaction(db, async trx => {
    await saveRules(trx, ownerId, [])
    sweeping = applyRules(db, ownerId, id)
    await Promise.race([waiting(db), sweeping])
  })
  await sweeping
  t.truthy(await find('logs/1.txt'))
})

test.serial('an object that is overwritten while the sweep waits for its name stays', async t => {
  const { db, ownerId, name, id, find } = await overdue('logs/1.txt')
  let sweeping: Promise<void> | undefined
  await transaction(db, async trx => {
    await lockNames(trx, [name('logs/1.txt')])
    sweeping = applyRules(db, ownerId, id)
    await waiting(db)
    await trx('objects').where({ owner_id: ownerId }).update({ created_at: trx.fn.now() })
  })
  await sweeping
  t.truthy(await find('logs/1.txt'))
})

test.serial('an unchanged rule keeps its times; a changed one starts over', async t => {
  const { db, ownerId } = await account()
  const [first] = await saveRules(db, ownerId, [rule('a/', { delete_after_days: 7 })])
  t.is(first!.active_from!.getTime() - first!.created_at.getTime(), day * 1000)
  const [same, added] = await saveRules(db, ownerId, [
    rule('b/', { max_size: 5e9 }),
    rule('a/', { delete_after_days: 7 }),
  ])
  t.deepEqual(same, first)
  t.deepEqual([added!.active_from, added!.max_size], [null, 5e9])
  const [changed] = await saveRules(db, ownerId, [rule('a/', { delete_after_days: 8 })])
  t.true(changed!.created_at > first!.created_at)
  t.deepEqual(await listRules(db, ownerId), [changed!])
})

/** A chunked upload with one part, idle for two days. */
async function idle() {
  const { db, ownerId, name } = await account()
  const key = `${newId()}.txt`
  const id = await idleUpload(db, ownerId, key)
  const { segment_id: segmentId } = await db('upload_parts').where({ upload_id: id }).first()
  return { db, ownerId, id, segmentId, find: (): Promise<ObjectRow | undefined> => findObject(db, name(key)) }
}

test.serial('an upload that was idle for a day is aborted, and its parts lose their references', async t => {
  const { db, ownerId, id, segmentId } = await idle()
  const receiptId = await receipt(db)
  await reclaimIdleUploads(db, receiptId, day)
  await checkReceiptLines(db, receiptId)
  const [line] = (await listReceiptLines(db, receiptId, 100)).filter(({ owner_id }) => owner_id === ownerId)
  t.deepEqual([line!.subject, line!.bytes, line!.proof], [id, 4, 'not open, without parts'])
  t.deepEqual(line!.bodies, [{ id: segmentId, state: 'waits for the sweep' }])
  t.like(await db('uploads').where({ id }).first(), { state: 'aborted', why: 'idle' })
})

test.serial('a completed upload is never reclaimed, nor a reclaimed one completed', async t => {
  for (const first of ['complete', 'reclaim'] as const) {
    const { db, ownerId, id, find } = await idle()
    const complete = () => transaction(db, trx => completeUpload(trx, { id, ownerId }, { choose: parts => parts }))
    const reclaim = () => transaction(db, trx => reclaimUpload(trx, id, day))
    if (first === 'complete') await complete()
    else await reclaim()
    t.is(await (first === 'complete' ? reclaim() : complete()), undefined)
    t.is(Boolean(await find()), first === 'complete')
  }
})

test.serial(
  'forty uploads are completed and reclaimed concurrently: each ends in one way, and a completed one has its bytes',
  async t => {
    const uploads: Awaited<ReturnType<typeof idle>>[] = []
    while (uploads.length < 40) uploads.push(await idle())
    const { db } = uploads[0]!
    const end = async ({ id, ownerId }: (typeof uploads)[number], completeFirst: boolean) => {
      const complete = () => transaction(db, trx => completeUpload(trx, { id, ownerId }, { choose: parts => parts }))
      const reclaim = () => transaction(db, trx => reclaimUpload(trx, id, day))
      const works = completeFirst ? [complete, reclaim] : [reclaim, complete]
      const [first, second] = await Promise.all(works.map(work => work()))
      return completeFirst ? { completed: first, reclaimed: second } : { completed: second, reclaimed: first }
    }
    const ends: Awaited<ReturnType<typeof end>>[] = []
    for (
      let n = 0;
      n < 40;
      n += 4 // as many as have connections
    )
      ends.push(...(await Promise.all(uploads.slice(n, n + 4).map((upload, i) => end(upload, i % 2 === 0)))))
    for (const [n, { completed, reclaimed }] of ends.entries()) {
      const { find, segmentId } = uploads[n]!
      t.not(Boolean(completed), Boolean(reclaimed))
      t.is(Boolean(await find()), Boolean(completed))
      t.is((await db('segments').where({ id: segmentId }).first()).refs, completed ? 1 : 0)
    }
  },
)

test.serial('lists show what runs did, and idle runs only on request', async t => {
  const { db, ownerId } = await idle()
  const [busy, nothing] = [await receipt(db), await receipt(db)]
  await reclaimIdleUploads(db, busy, day)
  await db('blob_receipts').whereIn('id', [busy, nothing]).update({ ended_at: new Date() })
  const ids = async (idle: boolean) => (await listReceipts(db, { idle, limit: 1000 })).map(({ id }) => id)
  t.true((await ids(false)).includes(busy))
  t.false((await ids(false)).includes(nothing))
  t.true((await ids(true)).includes(nothing))
  t.truthy(ownerId)
})

/** Resolves once somebody waits for an advisory lock of this database. */
async function waiting(db: Db): Promise<void> {
  await comesTrue(async () => {
    const { rows } = await db.raw(
      `select 1 from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`,
    )
    return rows.length > 0
  })
}
