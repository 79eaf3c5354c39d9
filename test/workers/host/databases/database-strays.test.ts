import { join } from 'node:path'
import test from 'ava'
import { labels } from '../../../../activities/containers/port.ts'
import { databaseJobRole, databaseVolume } from '../../../../activities/databases/names.ts'
import { writeMarker } from '../../../../activities/databases/settings-folder.ts'
import { retainWhileWaiting } from '../../../../db/databases/point-in-time/copies.ts'
import { newAppId, newId } from '../../../../policy/ids.ts'
import type { DatabaseWatchOptions } from '../../../../workers/host/databases/database-watch.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { walArchive } from '../../../kit/databases/wal-archive.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()
const uid = process.getuid?.() ?? 0

/** A host of databases with volumes. */
async function host(changes: Partial<DatabaseWatchOptions> = {}) {
  const watched = await watchedHost((await database).db, changes)
  const { engine, volumes, put, serving, db, clock, look } = watched
  return {
    ...watched,
    /** A container that runs and a volume, whatever the rows say of them. */
    async bring(id: string, generation = 1) {
      const name = { id, generation }
      put(name)
      await volumes.ensure(databaseVolume(name), 16, uid)
      return databaseVolume(name)
    },
    /** As its row says, with its volume. */
    async known() {
      const one = await serving()
      await volumes.ensure(one.volume, 16, uid)
      return one
    },
    /** Their data could serve. */
    async complete(...ids: string[]) {
      for (const id of ids) await writeMarker(join(volumes.path(id), 'initialised'))
    },
    async forget(id: string) {
      const row = await db('databases').where({ id }).first()
      await db('databases').where({ id }).delete()
      return row
    },
    async operate(id: string, kind: string, state: string, input = {}) {
      const own = { target_type: 'database', target_id: id, owner_id: 'o', actor: 'o', input }
      await db('operations').insert({ id: newId(), kind, state, ...own })
    },
    runs: async (volume: string) => (await engine.inspect(`berth-db-${volume}`))?.running,
    async lookAfter(days: number) {
      clock.now += days * 86_400_000
      await look()
    },
  }
}

test('remains of a deletion or a failed creation are removed immediately, also jobs, and the network of an owner without others', async t => {
  const { bring, known, operate, look, volumes, engine, put, stateOf, ownerId, hostId } = await host()
  const kept = await known()
  const left = await Promise.all([newId(), newId()].map(id => bring(id)))
  const [deleted, failed] = left.map(volume => volume.split('-')[0]!) as [string, string]
  await operate(deleted, 'create', 'success')
  await operate(deleted, 'delete', 'success')
  await operate(failed, 'create', 'error')
  const job = { id: failed, generation: 1 }
  const { labels: own } = stateOf(job)
  put(job, { name: `berth-db-${failed}-1-job`, id: 'job', labels: { ...own, [labels.role]: databaseJobRole } })
  await look()
  t.deepEqual(await volumes.list(), [kept.volume])
  t.deepEqual([...engine.containers.keys()], [kept.name])
  t.deepEqual([...engine.networks], [`berth-${hostId}-${ownerId}`])
})

test('databases that the rows do not know are quarantined entirely, removed after 7 days, and restored when known again', async t => {
  const { known, bring, forget, look, lookAfter, volumes, runs, engine, row, queued, db } = await host()
  const kept = await known()
  const [late, lost] = [await known(), await known()]
  const lateRow = await forget(late.id)
  await forget(lost.id)
  const before = await bring(lost.id, 2)
  await look()
  t.deepEqual(await volumes.list(), [kept.volume])
  t.deepEqual(await Promise.all([late.volume, lost.volume, before].map(runs)), [false, false, false])
  t.true(await runs(kept.volume))
  await lookAfter(6)
  t.is(engine.containers.size, 4)

  await db('databases').insert(lateRow)
  await look()
  t.deepEqual(await volumes.list(), [kept.volume, late.volume].sort())
  t.is((await queued(late.id)).length, 1, 'a start')
  t.like(await row(late.id), { status: 'exited', restarts: 0 }, 'its end was no crash')

  await lookAfter(1)
  t.deepEqual([...engine.containers.keys()].sort(), [kept.name, late.name].sort())
  await volumes.bringBack(lost.volume)
  t.deepEqual(await volumes.list(), [kept.volume, late.volume].sort(), 'nothing is left to restore')
})

test('a database that cannot be restored yet is not acted upon, delays no others, and is tried again', async t => {
  const { known, forget, look, volumes, row, queued, db } = await host()
  const kept = await known()
  const [one, other] = [await known(), await known()]
  const rowsOfBoth = [await forget(one.id), await forget(other.id)]
  await look()
  t.deepEqual(await volumes.list(), [kept.volume])
  await db('databases').insert(rowsOfBoth)
  const { bringBack } = volumes
  volumes.bringBack = async volume => {
    if (volume === one.volume) throw new Error('a damaged image')
    await bringBack(volume)
  }
  await look()
  t.deepEqual(await volumes.list(), [kept.volume, other.volume].sort())
  t.like(await row(one.id), { status: 'running', restarts: 0 })
  t.deepEqual(await queued(one.id), [])
  volumes.bringBack = bringBack
  await look()
  t.deepEqual(await volumes.list(), [kept.volume, one.volume, other.volume].sort())
  t.is((await queued(one.id)).length, 1)
})

test('a host of whose databases the rows know none touches nothing', async t => {
  const { bring, lookAfter, volumes, runs, logged } = await host()
  const all = await Promise.all(Array.from({ length: 4 }, () => bring(newId())))
  for (const days of [0, 30]) await lookAfter(days)
  t.deepEqual(await volumes.list(), all.sort())
  for (const volume of all) t.true(await runs(volume))
  t.regex(logged.at(-1)!.msg, /knows none of the customers’ databases of this host/)
})

test('generations of a database that no longer serve are removed, unless an operation may use them', async t => {
  const { known, bring, look, volumes, runs, db, operation, ends } = await host()
  const one = await known()
  await db('databases').where({ id: one.id }).update({ generation: 2, next_generation: 4 })
  const [serving, reserved] = [await bring(one.id, 2), await bring(one.id, 3)]
  await db('databases')
    .where({ id: one.id })
    .update({ container_id: `c-${serving}` })
  for (const kind of ['restore', 'snapshot'] as const) {
    await operation(one.id, kind)
    await look()
    t.deepEqual(await volumes.list(), [one.volume, serving, reserved], kind)
    await ends(one.id, 'success')
  }
  await look()
  t.deepEqual(await volumes.list(), [serving])
  t.deepEqual(await Promise.all([one.volume, serving, reserved].map(runs)), [undefined, true, undefined])
})

test('the generation before a restore stays as long as its row says, which is longer while its changes cannot be stored', async t => {
  const { known, bring, look, volumes, db } = await host()
  const one = await known()
  const serving = await bring(one.id, 2)
  const own = { generation: 2, next_generation: 3, container_id: `c-${serving}`, retired_generation: 1 }
  const [soon, before] = [new Date(Date.now() + 60_000), new Date(Date.now() - 1)]
  await db('databases')
    .where({ id: one.id })
    .update({ ...own, retired_until: soon })
  await look()
  t.deepEqual(await volumes.list(), [one.volume, serving])
  await db('databases').where({ id: one.id }).update({ retired_until: before })
  await retainWhileWaiting(db, { databaseId: one.id, generation: 1 })
  await look()
  t.deepEqual(await volumes.list(), [one.volume, serving], 'it has changes that could not be stored')
  await db('databases').where({ id: one.id }).update({ retired_until: before })
  await look()
  t.deepEqual(await volumes.list(), [serving])
})

test('an engine on the volume before a restore is ended, and no other; not while an operation may use it', async t => {
  const { known, bring, operation, ends, look, volumes, runs, db } = await host()
  const [one, other] = [await known(), await known()]
  const [serving, later] = [await bring(one.id, 3), await bring(other.id, 9)]
  const until = new Date(Date.now() + 60_000)
  const own = { generation: 3, next_generation: 4, container_id: `c-${serving}`, retired_generation: 1 }
  await db('databases')
    .where({ id: one.id })
    .update({ ...own, retired_until: until })
  await db('databases').where({ id: other.id }).update({ retired_generation: 5, retired_until: until })
  await operation(one.id, 'undo')
  await look()
  t.true(await runs(one.volume))
  await ends(one.id, 'success')
  await look()
  t.deepEqual(await Promise.all([one.volume, serving, other.volume].map(runs)), [false, true, true])
  t.deepEqual(await volumes.list(), [one.volume, serving, other.volume].sort())
  t.false(await runs(later), 'quarantined')
})

test('a generation that the row has not given out is quarantined: its row is older than it', async t => {
  const { known, bring, look, lookAfter, volumes, runs, db, queued, ends } = await host()
  const one = await known()
  const later = await bring(one.id, 2)
  await look()
  t.deepEqual(await volumes.list(), [one.volume])
  t.deepEqual([await runs(one.volume), await runs(later)], [true, false])
  await db('databases')
    .where({ id: one.id })
    .update({ generation: 2, next_generation: 3, container_id: `c-${later}` })
  await lookAfter(6)
  t.deepEqual(await volumes.list(), [one.volume, later], 'the right database is back')
  t.is((await queued(one.id)).length, 1, 'a start')
  await ends(one.id, 'success')
  await db('databases').where({ id: one.id }).update({ status: 'running' })
  await look()
  t.deepEqual(await volumes.list(), [later])
})

test('a generation that an operation has put to use since the round began is not removed', async t => {
  const { known, bring, look, volumes, db, options, operation, logged } = await host()
  const one = await known()
  await db('databases').where({ id: one.id }).update({ generation: 2 })
  const serving = await bring(one.id, 2)
  await db('databases')
    .where({ id: one.id })
    .update({ container_id: `c-${serving}` })
  const isDecided = () => logged.some(({ msg }) => msg.startsWith('strays: removing'))
  const held = options.locks(one.id, async () => {
    await comesTrue(isDecided)
    await operation(one.id, 'resize')
  })
  await look()
  await held
  t.deepEqual(await volumes.list(), [one.volume, serving])
})

test('containers and volumes of applications are none of its business', async t => {
  const { known, look, lookAfter, volumes, engine, put, hostId, ownerId } = await host()
  const one = await known()
  const apps = [newAppId(), newAppId(), newAppId(), newAppId()]
  for (const id of apps) {
    const own = { [labels.host]: hostId, [labels.owner]: ownerId, [labels.app]: id, [labels.release]: '1' }
    put(one, { id: `c-${id}`, name: `berth-${id}-1`, labels: { ...own, [labels.role]: 'app' } })
    await volumes.ensure(id, 16, uid)
  }
  await look()
  await lookAfter(8)
  t.deepEqual(await volumes.list(), [...apps, one.volume].sort())
  t.is(engine.containers.size, 5)
  t.deepEqual(engine.ended, [])
})

test('a job is removed once no operation needs it, and one without a usable label hinders nothing', async t => {
  const { known, put, stateOf, look, engine, operation, ends, operate, hostId } = await host()
  const one = await known()
  const { labels: own } = stateOf(one)
  const job = { name: `${one.name}-job`, id: 'job', labels: { ...own, [labels.role]: databaseJobRole } }
  put(one, job)
  const odd = { [labels.host]: hostId, [labels.database]: 'x', [labels.role]: 'database' }
  put(one, { name: 'odd', id: 'odd', labels: odd })
  await operation(one.id, 'snapshot')
  await look()
  t.true(engine.containers.has(job.name))
  await ends(one.id, 'success')
  await operate(one.id, 'resize', 'accepting')
  await look()
  t.true(engine.containers.has(job.name))
  await ends(one.id, 'success')
  await look()
  t.deepEqual([...engine.containers.keys()], [one.name, 'odd'])
})

test('the row of another host says that it is not of this one, and nothing is touched', async t => {
  const { known, complete, look, volumes, db, runs } = await host()
  const one = await known()
  await complete(one.volume)
  const elsewhere = `h-${newAppId()}`
  await rows(db).host(elsewhere)
  await db('databases').where({ id: one.id }).update({ host_id: elsewhere, generation: 2, next_generation: 3 })
  await look()
  t.deepEqual(await volumes.list(), [one.volume])
  t.true(await runs(one.volume))
})

test('remains of a drill are removed from a host that was away until nothing is known of it, but no data that could serve', async t => {
  const { known, bring, complete, operation, ends, look, volumes, engine, put, db } = await host()
  const one = await known()
  const elsewhere = `h-${newAppId()}`
  await rows(db).host(elsewhere)
  await db('databases').where({ id: one.id }).update({ host_id: elsewhere, generation: 9, next_generation: 10 })
  const scratch = await Promise.all([5, 6].map(generation => bring(one.id, generation)))
  const served = await bring(one.id, 7)
  await complete(one.volume, served)
  const job = { id: one.id, generation: 6 }
  put(job, { name: 'berth-db-job', id: 'job' })
  await operation(one.id, 'drill')
  await look()
  t.deepEqual((await volumes.list()).sort(), [one.volume, ...scratch, served].sort(), 'a drill may use them')
  await ends(one.id, 'error')
  // The history of operations has ended.
  await db('operations').where({ target_id: one.id }).delete()
  const everything = [one.volume, ...scratch, served].sort()
  for (const fault of ['not mounted', 'read-only'] as const) {
    volumes.faults = async ids => new Map(ids.map(id => [id, fault]))
    await look()
    t.deepEqual((await volumes.list()).sort(), everything, 'it cannot be seen what they have')
  }
  volumes.faults = async () => new Map()
  // Neither can it of a folder that does not answer as one.
  const { path } = volumes
  volumes.path = volume => (scratch.includes(volume) ? '/dev/null' : path(volume))
  await look()
  t.deepEqual((await volumes.list()).sort(), everything)
  volumes.path = path
  await look()
  t.deepEqual((await volumes.list()).sort(), [one.volume, served].sort())
  t.false(engine.containers.has('berth-db-job'))
})

test('a host that was away for longer than it retains a volume stores what its engine has left there, and removes it then', async t => {
  const { db } = await database
  const later: { waits: NonNullable<DatabaseWatchOptions['waits']> } = { waits: async () => false }
  const { known, bring, look, volumes, ownerId, hostId, options } = await host({
    waits: (of, givenUp) => later.waits(of, givenUp),
  })
  const archive = await walArchive(t, db, { volumes, hostId, locks: options.locks })
  later.waits = archive.part.waits
  const one = await known()
  const serving = await bring(one.id, 2)
  const own = { engine: 'postgres', generation: 2, next_generation: 3, container_id: `c-${serving}` }
  await db('databases')
    .where({ id: one.id })
    .update({ ...own, retired_generation: 1, retired_until: new Date(Date.now() - 86_400_000) })
  archive.finish(volumes.path(one.volume), 1)
  await look()
  t.deepEqual(await volumes.list(), [one.volume, serving])
  await archive.part.copy({ id: one.id, generation: 1, ownerId }, AbortSignal.timeout(60_000))
  t.like(await db('database_wal').where({ database_id: one.id }).first(), { generation: 1, number: '1' })
  const { faults } = volumes
  volumes.faults = async ids => new Map(ids.map(id => [id, 'not mounted']))
  await look()
  t.deepEqual(await volumes.list(), [one.volume, serving], 'it cannot be seen what it has')
  volumes.faults = faults
  await look()
  t.deepEqual(await volumes.list(), [serving])
})

test('the volume before a restore that can never be mounted is removed: after 7 more days, immediately where nothing of it is stored', async t => {
  const { db } = await database
  const later: { waits: NonNullable<DatabaseWatchOptions['waits']> } = { waits: async () => false }
  const { known, bring, look, volumes, hostId, options } = await host({
    waits: (of, givenUp) => later.waits(of, givenUp),
  })
  later.waits = (await walArchive(t, db, { volumes, hostId, locks: options.locks })).part.waits
  volumes.faults = async ids => new Map(ids.map(id => [id, 'not mounted']))
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)
  async function restored(engine: string, days: number) {
    const one = await known()
    const serving = await bring(one.id, 2)
    const own = { engine, generation: 2, next_generation: 3, container_id: `c-${serving}`, retired_generation: 1 }
    await db('databases')
      .where({ id: one.id })
      .update({ ...own, retired_until: daysAgo(days) })
    return one.volume
  }
  const [soon, late, redis] = [await restored('postgres', 6), await restored('postgres', 8), await restored('redis', 1)]
  await look()
  const left = await volumes.list()
  t.deepEqual(
    [soon, late, redis].map(volume => left.includes(volume)),
    [true, false, false],
  )
})
