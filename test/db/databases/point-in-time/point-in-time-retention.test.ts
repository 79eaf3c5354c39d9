import test from 'ava'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import { listServings } from '../../../../db/databases/point-in-time/backups.ts'
import { listDueBackups } from '../../../../db/databases/point-in-time/copied-databases.ts'
import { forgetCopies, listCopyStates, recordGap } from '../../../../db/databases/point-in-time/copies.ts'
import { sweepPointInTime } from '../../../../db/databases/point-in-time/point-in-time-retention.ts'
import { newId } from '../../../../policy/ids.ts'
import { sealKeys } from '../../../../policy/seal.ts'
import { makeDatabase } from '../../../kit/rows/databases.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))
const daysAgo = (days: number): Date => new Date(Date.now() - days * 86_400_000)

/** A Postgres that was created 30 days ago. */
async function scene() {
  const { db } = await database
  const make = rows(db)
  const { id: ownerId } = await make.user()
  await make.host('h')
  const { id, host_id: hostId } = await makeDatabase(db, keys, ownerId, { engine: 'postgres' })
  await db('databases')
    .where({ id })
    .update({ created_at: daysAgo(30) })
  const segment = async () => {
    const segmentId = newId()
    await db('segments').insert({ id: segmentId, state: 'stored', refs: 1 })
    return segmentId
  }
  return {
    ...{ db, id, hostId },
    async backup(days: number, first_file: number, { generation = 1, broken = false } = {}) {
      const of = {
        id: newId(),
        database_id: id,
        generation,
        timeline: 1,
        first_file,
        size: 1,
        segment_id: await segment(),
      }
      await db('database_backups').insert({ ...of, from_at: daysAgo(days), created_at: daysAgo(days), broken })
      return of.id
    },
    async files(days: number, numbers: number[], generation = 1) {
      for (const number of numbers)
        await db('database_wal').insert({
          ...{
            database_id: id,
            generation,
            timeline: 1,
            number,
            segment_id: await segment(),
            size: 1,
            at: daysAgo(days),
          },
        })
    },
    async sweep(days = 7): Promise<void> {
      while ((await sweepPointInTime(db, days)) > 0);
    },
    left: async () => ({
      backups: await db('database_backups').where({ database_id: id }).orderBy('from_at').pluck('id'),
      files: (
        await db('database_wal').where({ database_id: id }).orderBy(['generation', 'number']).pluck('number')
      ).map(Number),
    }),
    unreferenced: async () =>
      Number((await db('segments').where({ refs: 0 }).whereNotNull('zero_since').count().first())!.count),
  }
}

test.serial(
  'the newest base backup before the oldest moment stays with its WAL files, older ones are released',
  async t => {
    const { backup, files, sweep, left, unreferenced } = await scene()
    await backup(10, 1)
    await files(10, [1, 2, 3])
    const kept = [await backup(8, 4), await backup(6, 7), await backup(0.5, 9)]
    await files(8, [4, 5, 6])
    await files(2, [7, 8, 9, 10])
    const before = await unreferenced()
    await sweep()
    t.deepEqual(await left(), { backups: kept, files: [4, 5, 6, 7, 8, 9, 10] })
    t.is((await unreferenced()) - before, 4)
    await sweep(5)
    t.deepEqual(await left(), { backups: kept.slice(1), files: [7, 8, 9, 10] })
  },
)

test.serial('a volume is released once its last moment is too old; a copy that does not serve yet is not', async t => {
  const { backup, files, sweep, left, db, id } = await scene()
  await backup(20, 1)
  await files(20, [1, 2])
  await db('databases').where({ id }).update({ generation: 3 })
  const serving = await backup(9, 5, { generation: 3 })
  await files(9, [5, 6], 3)
  const prepared = await backup(0.2, 8, { generation: 5 })
  const at = (days: number) =>
    db('database_switches')
      .where({ database_id: id })
      .update({ at: daysAgo(days) })
  await at(6)
  await sweep()
  t.is((await left()).backups.length, 3)
  const servings = await listServings(db, (await loadDatabase(db, id))!)
  t.deepEqual(
    servings.map(({ generation, until }) => [generation, until === null]),
    [
      [1, false],
      [3, true],
    ],
  )
  await at(7.1)
  await sweep()
  t.deepEqual(await left(), { backups: [serving, prepared], files: [5, 6] })
})

test.serial(
  'with 0 days, and of a deleted database, nothing stays; while a restore reads, everything does',
  async t => {
    const { backup, files, sweep, left, db, id } = await scene()
    await backup(10, 1)
    await backup(9, 2)
    await files(9, [1, 2])
    const operation = {
      id: newId(),
      target_type: 'database',
      target_id: id,
      kind: 'restore',
      owner_id: newId(),
      actor: 'a',
    }
    await db('operations').insert({ ...operation, state: 'running' })
    await sweep(0)
    t.is((await left()).backups.length, 2)
    await db('operations').where({ id: operation.id }).update({ state: 'success' })
    await sweep(0)
    t.deepEqual(await left(), { backups: [], files: [] })
    await backup(1, 1)
    await files(0.1, [1, 2])
    await db('databases').where({ id }).update({ generation: 3 })
    await db('databases').where({ id }).delete()
    await sweep()
    t.deepEqual(await left(), { backups: [], files: [] })
    for (const table of ['database_copies', 'database_switches'])
      t.deepEqual(await db(table).where({ database_id: id }), [], table)
  },
)

test.serial(
  'a database stores 32 times its memory at most: its oldest moments are given up, but never the newest backup',
  async t => {
    const { backup, files, sweep, left, db, id, hostId } = await scene()
    await db('databases').where({ id }).update({ ram_mb: 1024 })
    const GiB = 1024 ** 3
    const all = [await backup(3, 1), await backup(2, 4), await backup(1, 7)]
    await files(1, [1, 2, 3, 4, 5, 6, 7])
    for (const [index, before] of [0, 10, 30].entries())
      await db('database_backups')
        .where({ id: all[index]! })
        .update({ stored_before: before * GiB, created_at: daysAgo(0.1 - index * 0.01) })
    const stored = (bytes: number) =>
      db('database_copies')
        .insert({ database_id: id, generation: 1, stored: bytes })
        .onConflict(['database_id', 'generation'])
        .merge()
    const due = async () => (await listDueBackups(db, hostId)).includes(id)
    await stored(32 * GiB)
    await sweep()
    t.deepEqual((await left()).backups, all)
    await stored(32 * GiB + 1)
    await sweep()
    t.deepEqual(await left(), { backups: all.slice(1), files: [4, 5, 6, 7] })
    await stored(38 * GiB)
    t.false(await due())
    await stored(38 * GiB + 1)
    t.true(await due(), 'so that there is something to give up')
    await stored(1000 * GiB)
    await sweep()
    t.deepEqual(await left(), { backups: all.slice(2), files: [7] })
  },
)

test.serial('a base backup is due at first, after a day, and soon after WAL files are missing', async t => {
  const { backup, db, id, hostId } = await scene()
  const due = async () => (await listDueBackups(db, hostId)).includes(id)
  t.true(await due())
  const first = await backup(1.1, 1)
  t.true(await due())
  await db('database_backups')
    .where({ id: first })
    .update({ created_at: daysAgo(0.9) })
  t.false(await due())
  await db('database_backups').where({ id: first }).update({ broken: true })
  t.true(await due())
  await db('database_backups').where({ id: first }).update({ created_at: new Date() })
  t.false(await due())

  const seconds = (number: number) => new Date(Date.now() - number * 1000)
  const gap = (at: Date) => db('database_copies').where({ database_id: id }).update({ gap_at: at })
  await recordGap(db, { databaseId: id, generation: 1 })
  await db('database_backups')
    .where({ id: first })
    .update({ created_at: seconds(300) })
  await gap(seconds(50))
  t.false(await due(), 'its engine may still write more than can be copied')
  await gap(seconds(70))
  t.true(await due())
  const second = await backup(1, 1)
  await db('database_backups')
    .where({ id: second })
    .update({ created_at: seconds(100), broken: true })
  t.false(await due(), 'two in 10 minutes')
  await db('database_backups')
    .where({ id: first })
    .update({ created_at: seconds(610) })
  t.true(await due())

  await db('databases').where({ id }).update({ generation: 3 })
  t.true(await due(), 'of the volume that serves')
  await db('databases').where({ id }).update({ status: 'exited' })
  t.false(await due())
})

test.serial('the copies of a volume are forgotten before its data is made anew, and of no other volume', async t => {
  const { backup, files, left, unreferenced, db, id } = await scene()
  const kept = await backup(2, 1)
  await files(2, [1, 2])
  await backup(1, 1, { generation: 3 })
  await files(1, [1, 2, 3], 3)
  await recordGap(db, { databaseId: id, generation: 3 })
  const before = await unreferenced()
  for (let time = 0; time < 2; time++) {
    await forgetCopies(db, { databaseId: id, generation: 3 })
    t.deepEqual(await left(), { backups: [kept], files: [1, 2] })
    t.is((await unreferenced()) - before, 4)
    t.is((await listCopyStates(db, id)).length, 0)
  }
})
