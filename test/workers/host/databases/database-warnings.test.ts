import test from 'ava'
import type { Db } from '../../../../db/database.ts'
import { recordDatabaseDesired, recordDatabaseStarted } from '../../../../db/databases/databases.ts'
import { DatabaseMetrics, type DatabaseMetricsOptions } from '../../../../workers/host/databases/database-metrics.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()
const mb = 1024 * 1024
const now = Date.now()

/** A host whose figures the test sets, and what was mailed to the owner. */
async function host(changes: Partial<DatabaseMetricsOptions> = {}) {
  const base = await watchedHost((await database).db)
  const { db, ownerId, options } = base
  const metrics = new DatabaseMetrics({ ...options, ...changes })
  const mails = async (): Promise<{ template: string; fields: Record<string, unknown> }[]> =>
    db('mails').where({ user_id: ownerId }).orderBy('created_at').select('template', 'fields')
  const sample = async (times = 1) => {
    for (let n = 0; n < times; n++) await metrics.round(now)
  }
  return { ...base, metrics, mails, sample, templates: async () => (await mails()).map(({ template }) => template) }
}

/** So many hours pass for mails. */
const pass = (db: Db, hours: number) =>
  db('mails').update({ created_at: db.raw('created_at - make_interval(hours => ?)', [hours]) })

test.serial('memory near the limit for three consecutive samples is mailed once, until it was well below', async t => {
  const { db, serving, engine, mails, sample, row } = await host()
  const one = await serving(60, { engine: 'postgres', version: '17', image: 'berth/postgres:17', ram_mb: 1024 })
  const look = async (times: number, residentMb: number, cacheMb = 0) => {
    const figures = { residentBytes: residentMb * mb, memoryBytes: (residentMb + cacheMb) * mb }
    engine.figures.set(one.name, figures)
    await sample(times)
  }
  await look(5, 500, 500)
  await look(2, 1000)
  await look(1, 500)
  await look(2, 1000)
  t.deepEqual(await mails(), [], 'neither page cache nor peaks')
  await look(1, 950)
  const fields = { database: 'store', usedMb: 950, limitMb: 1024, percent: 92 }
  t.deepEqual(await mails(), [{ template: 'database-memory', fields }])
  await look(10, 1000)
  await look(3, 850)
  await look(6, 1000)
  await pass(db, 48)
  await look(6, 1000)
  t.is((await mails()).length, 1, 'it has never ended')
  t.truthy((await row(one.id)).memory_warned_at)
  await look(1, 800)
  t.is((await row(one.id)).memory_warned_at, null)
  await look(3, 1000)
  t.is((await mails()).length, 2, 'another time')
  await look(1, 100)
  await look(30, 1000)
  t.is((await mails()).length, 2, 'and once an hour')
  await pass(db, 2)
  await look(1, 1000)
  t.is((await mails()).length, 3, 'what goes on after that hour is mailed')
})

test.serial('of Redis its data count, against what they may take', async t => {
  let usedBytes = 0
  const { serving, engine, mails, sample, logged } = await host({
    async memoryOf({ ram_mb }) {
      if (usedBytes < 0) throw new Error('The redis engine does not answer')
      return { usedBytes, limitBytes: ram_mb * mb * 0.65 }
    },
  })
  const one = await serving()
  engine.figures.set(one.name, { residentBytes: 500 * mb })
  await sample(4)
  t.deepEqual(await mails(), [])
  usedBytes = 310 * mb
  await sample(2)
  usedBytes = -1
  await sample()
  t.true(logged.some(({ databaseId }) => databaseId === one.id))
  usedBytes = 310 * mb
  t.deepEqual(await mails(), [])
  await sample()
  t.like((await mails())[0], {
    template: 'database-memory',
    fields: { database: 'store', usedMb: 310, limitMb: 333, percent: 93 },
  })
})

test.serial(
  'a disk is mailed once at each level, also when its memory cannot be read, and again once it was well below',
  async t => {
    let usedBytes = 0
    const { db, serving, mails, sample, row, templates } = await host({
      diskOf: async () => ({ usedBytes, totalBytes: 1000 * mb }),
      memoryOf: async () => Promise.reject(new Error('it does not answer')),
    })
    const one = await serving()
    const at = async (percent: number) => {
      usedBytes = percent * 10 * mb
      await sample(2)
    }
    await at(84)
    t.deepEqual(await templates(), [])
    await at(86)
    await at(90)
    t.deepEqual(await mails(), [
      { template: 'database-disk', fields: { database: 'store', usedMb: 860, limitMb: 1000, percent: 86 } },
    ])
    await at(96)
    await at(99)
    await at(92)
    await at(97)
    t.is((await mails()).length, 2)
    t.like((await mails())[1], { fields: { percent: 96 } })
    t.is((await row(one.id)).disk_warned, 2)
    await at(50)
    t.is((await row(one.id)).disk_warned, 0)
    await at(86)
    t.is((await mails()).length, 2, 'within the hour it is not mailed again')
    await pass(db, 2)
    await at(86)
    t.is((await mails()).length, 3)
    t.is((await row(one.id)).disk_warned, 1)
  },
)

test.serial('a database without its own disk causes no mail, and a deleted one does not disturb others', async t => {
  const deleted: string[] = []
  const { db, serving, sample, templates } = await host({
    async diskOf({ id }) {
      if (deleted.includes(id)) await db('databases').where({ id }).delete()
      return deleted.includes(id) ? { usedBytes: 99, totalBytes: 100 } : null
    },
  })
  await serving()
  deleted.push((await serving()).id)
  await sample(3)
  t.deepEqual(await templates(), [])
})

test.serial('the end that leaves an engine down is mailed, in its commit, and not each end before', async t => {
  const { db, serving, put, crash, look, later, clock, row, mails, ends } = await host()
  const one = await serving()
  const starts = async () => {
    const startedAt = new Date(clock.now)
    await recordDatabaseStarted(db, one.id, { containerId: `c-${one.volume}`, startedAt, bootId: 'boot-1' })
    put(one)
  }
  const fiveEnds = async () => {
    for (let n = 1; n <= 5; n++) {
      crash(one)
      await look()
      later(60)
      await look()
      if (n === 5) return
      await ends(one.id, 'success')
      await starts()
    }
  }
  const down = { template: 'database-down', fields: { database: 'store', ends: 5 } }
  await fiveEnds()
  t.deepEqual(await mails(), [down])
  later(86_400)
  await look()
  t.deepEqual(await mails(), [down])
  // Somebody starts it, and it ends before its host has seen it.
  await pass(db, 2)
  await starts()
  crash(one)
  await look()
  t.like(await row(one.id), { restarts: 6, restart_at: null })
  t.deepEqual(await mails(), [down, down])
  await starts()
  await look()
  t.is((await row(one.id)).restarts, 0)
  await fiveEnds()
  t.deepEqual((await mails()).slice(2), [{ template: 'database-crashed', fields: { database: 'store', ends: 5 } }])
})

test.serial(
  'an engine that was stopped on purpose, could not be started or ended in its last start is mailed accordingly',
  async t => {
    const { db, add, serving, crash, look, mails } = await host()
    const stopped = await serving()
    await recordDatabaseDesired(db, stopped.id, 'stopped')
    crash(stopped)
    await look()
    t.deepEqual(await mails(), [])
    await add({ status: 'exited', restarts: 4, name: 'orders' })
    await look()
    t.deepEqual(await mails(), [], 'its host tries again')
    crash(await add({ status: 'exited', restarts: 4, name: 'users' }))
    await look()
    t.deepEqual(await mails(), [{ template: 'database-down', fields: { database: 'users', ends: 5 } }])
  },
)

test.serial(
  'an engine that crashes every 11 minutes is mailed at its fifth end within a day, then once a day',
  async t => {
    const { db, serving, put, crash, look, later, clock, row, mails, ends } = await host()
    const one = await serving()
    async function cycle(changes: Parameters<typeof crash>[1] = {}, minutes = 11) {
      later(minutes * 60)
      await look()
      crash(one, changes)
      await look()
      later(2)
      await look()
      await ends(one.id, 'success')
      await recordDatabaseStarted(db, one.id, {
        ...{ containerId: `c-${one.volume}`, startedAt: new Date(clock.now), bootId: 'boot-1' },
      })
      put(one)
      await look()
    }
    for (let n = 0; n < 4; n++) await cycle()
    t.deepEqual(await mails(), [])
    await cycle()
    const fifth = { template: 'database-crashed', fields: { database: 'store', ends: 5 } }
    t.deepEqual(await mails(), [fifth])
    t.like(await row(one.id), { status: 'running', exit_at: null, crash_code: 139, crash_oom: false })
    const { crash_at: at, crash_times: times } = await row(one.id)
    t.deepEqual([times.length, times[0]], [5, at])
    await cycle()
    await cycle()
    t.is((await mails()).length, 1, 'once a day')

    later(86_400)
    await pass(db, 25)
    await cycle()
    t.is((await mails()).length, 1, 'the first end of another day')
    await cycle({ exitCode: 137, oom: true })
    t.deepEqual((await mails())[1], { template: 'database-crashed', fields: { database: 'store', ends: 2 } })
    t.like(await row(one.id), { crash_code: 137, crash_oom: true })
    later(86_400)
    await pass(db, 25)
    const hour = 60
    for (const minutes of [0, 22 * hour, hour, hour, hour]) await cycle({}, Math.max(11, minutes))
    t.is((await mails()).length, 2, 'four of the five are within a day')
    await cycle({}, hour)
    t.deepEqual((await mails())[2], { template: 'database-crashed', fields: { database: 'store', ends: 5 } })
  },
)

test.serial('a mail that cannot be queued undoes what it is about', async t => {
  const { db, serving, sample, engine, crash, look, row } = await host({ diskOf: async () => null })
  const one = await serving(60, { engine: 'mysql', version: '9', restarts: 4 })
  await db.raw(`create function refuse_mail() returns trigger language plpgsql as $$ begin raise 'no mail'; end $$`)
  await db.raw('create trigger refuse_mail before insert on mails for each row execute function refuse_mail()')
  t.teardown(() => db.raw('drop function refuse_mail cascade'))
  engine.figures.set(one.name, { residentBytes: 512 * mb })
  await sample(3)
  t.is((await row(one.id)).memory_warned_at, null)
  crash(one)
  await look()
  t.like(await row(one.id), { status: 'running', restarts: 4 })
})
