import { Readable } from 'node:stream'
import test from 'ava'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { removeThrowAway, throwAwayFolder } from '../../../cli/test/test-postgres.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import type { Db } from '../../../db/database.ts'
import * as segments from '../../../db/objects/segments.ts'
import { strayTerms } from '../../../policy/hosts/strays.ts'
import { upkeepTimes } from '../../../policy/objects/blob-upkeep.ts'
import { sweep } from '../../kit/objects/sweep.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const folder = throwAwayFolder()
test.after.always('remove the store', () => removeThrowAway(folder))

test.serial('unreferenced segments are removed, and only those', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const stored = async () => {
    const id = await segments.allocateSegment(db)
    await store.put(id, Readable.from('archive'))
    return id
  }
  const make = rows(db)
  await make.host('h1')
  const user = await make.user()
  const [forgotten, fresh, used, freed] = [await stored(), await stored(), await stored(), await stored()]
  await make.app(user.id, {}, { segmentId: used })
  const { app } = await make.app(user.id, {}, { segmentId: freed })
  await removeApp(db, app.id)
  const longAgo = new Date(Date.now() - upkeepTimes.drawnSeconds * 1000 - 3600_000)
  await db('segments').where({ id: forgotten }).update({ drawn_at: longAgo })
  await db('segments').where({ id: freed }).update({ zero_since: longAgo })

  t.is(await sweep({ db, store }), 2)
  const left = async (id: string) => ({
    body: Boolean(await store.head(id)),
    row: Boolean(await db('segments').where({ id }).first()),
  })
  t.deepEqual(await left(forgotten), { body: false, row: false })
  t.deepEqual(await left(freed), { body: false, row: false })
  t.deepEqual(await left(fresh), { body: true, row: true })
  t.deepEqual(await left(used), { body: true, row: true })
})

test.serial('a segment of an object is retained for running downloads, others are not', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const freed = async (crc32: number | null, seconds: number) => {
    const id = await segments.allocateSegment(db)
    const { size, sha256 } = await store.put(id, Readable.from('body'))
    const zero_since = new Date(Date.now() - seconds * 1000)
    await db('segments').where({ id }).update({ state: 'stored', size, sha256, crc32, zero_since })
    return id
  }
  const [archive, young, old] = [await freed(null, 300), await freed(7, 300), await freed(7, 7200)]
  t.is(await sweep({ db, store }), 2)
  t.deepEqual(await Promise.all([archive, young, old].map(id => store.head(id))), [null, { size: 4 }, null])
})

test.serial(
  'objects that a killed process has stored are swept 2 hours after they were held last, and no held ones',
  async t => {
    const { db } = await database
    const store = await filesystemStore(folder)
    const [dead, held] = await Promise.all([segments.allocateHeldSegment(db), segments.allocateHeldSegment(db)])
    for (const id of [dead, held]) await store.put(id, Readable.from('half of a snapshot'))
    const pass = (minutes: number) =>
      db('segments')
        .whereIn('id', [dead, held])
        .update({ drawn_at: db.raw('drawn_at - make_interval(mins => ?)', [minutes]) })
    await pass(115)
    t.is(await sweep({ db, store }), 0)
    await segments.holdAllocation(db, held)
    await pass(6)
    t.is(await sweep({ db, store }), 1)
    t.deepEqual([await store.head(dead), await store.head(held)], [null, { size: 18 }])
    const facts = { size: 18, sha256: 'a'.repeat(64) }
    t.false(await segments.attachSegment(db, dead, facts))
    t.true(await segments.attachSegment(db, held, facts))
  },
)

test.serial('a segment that the store fails to delete delays no others, and is removed later', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const ids = await Promise.all(Array.from({ length: 9 }, () => segments.allocateSegment(db)))
  for (const id of ids) await store.put(id, Readable.from('body'))
  const stuck = ids[3]
  const stubborn = {
    head: (id: string) => store.head(id),
    delete: (id: string) => (id === stuck ? Promise.reject(new Error('away')) : store.delete(id)),
  } as ObjectStore
  await t.throwsAsync(sweep({ db, store: stubborn }, { drawnSeconds: 0 }), { message: 'away' })
  t.deepEqual(await db('segments').whereIn('id', ids).select('id', 'state'), [{ id: stuck, state: 'dying' }])
  t.is(await sweep({ db, store }), 0)
  await passRetryTime(db)
  t.is(await sweep({ db, store }), 1)
  t.is(await store.head(stuck!), null)
})

/** The time after which the sweep tries again what the store did not delete. */
const passRetryTime = (db: Db) =>
  db('segments')
    .where({ state: 'dying' })
    .update({ zero_since: db.raw('zero_since - make_interval(secs => ?)', [upkeepTimes.retrySeconds]) })

test.serial('a segment that a restored database only knows as allocated is retained for 7 days', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const id = await segments.allocateSegment(db)
  await store.put(id, Readable.from('made since'))
  const drawn = (days: number) =>
    db('segments')
      .where({ id })
      .update({ drawn_at: db.raw(`now() - make_interval(days => ?) + interval '1 hour'`, [days]) })
  await drawn(strayTerms.keptDays)
  t.is(await sweep({ db, store }), 0)
  t.like(await store.head(id), { size: 10 })
  await drawn(strayTerms.keptDays + 1)
  t.is(await sweep({ db, store }), 1)
  t.is(await store.head(id), null)
})

test.serial('a segment used and released between selection and removal gets its hour of grace', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const ids = await Promise.all(Array.from({ length: 9 }, () => segments.allocateSegment(db)))
  for (const [n, id] of ids.entries()) {
    await store.put(id, Readable.from('body'))
    await db('segments')
      .where({ id })
      .update({ drawn_at: new Date(Date.now() - upkeepTimes.drawnSeconds * 1000 - (50 - n) * 3600_000) })
  }
  const last = ids.at(-1)!
  let used: Promise<void> | undefined
  const downloaded = async () => {
    await segments.attachSegment(db, last, { size: 4, sha256: 'x', crc32: 7 })
    await segments.releaseSegment(db, last)
  }
  // The last one is processed only after another is removed.
  const slow = {
    head: (id: string) => store.head(id),
    delete: async (id: string) => {
      used ??= downloaded()
      await used
      await store.delete(id)
    },
  } as ObjectStore
  t.is(await sweep({ db, store: slow }), 8)
  t.like(await db('segments').where({ id: last }).first(), { state: 'stored', refs: 0 })
  t.deepEqual(await store.head(last), { size: 4 })
  await db('segments')
    .where({ id: last })
    .update({ zero_since: new Date(Date.now() - 2 * 3600_000) })
  t.is(await sweep({ db, store }), 1)
})

test.serial('a segment that its store reports as deleted but still has is not reported as removed', async t => {
  const { db } = await database
  const store = await filesystemStore(folder)
  const lying = { delete: async () => {}, head: (id: string) => store.head(id) } as unknown as ObjectStore
  const id = await segments.allocateSegment(db)
  await store.put(id, Readable.from('archive'))
  await db('segments').where({ id }).update({ drawn_at: '2000-01-01' })
  await t.throwsAsync(sweep({ db, store: lying }), {
    message: `The object store reported the deletion of ${id} but still has it.`,
  })
  t.is((await db('segments').where({ id }).first()).state, 'dying')
  await passRetryTime(db)
  t.is(await sweep({ db, store }), 1)
  t.is(await store.head(id), null)
})

test.serial('a segment that is being swept can no longer be attached', async t => {
  const { db } = await database
  const id = await segments.allocateSegment(db)
  t.true(await segments.markSegmentForDeletion(db, id))
  t.false(await segments.attachSegment(db, id, { size: 1, sha256: 'x' }))
})
