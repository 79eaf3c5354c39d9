import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import { findWalSegment, newestWalNumber } from '../../../../db/databases/point-in-time/copies.ts'
import { pointInTimeRules, walFileName, walFileOf } from '../../../../policy/databases/point-in-time.ts'
import { watchDatabaseCopies } from '../../../../workers/host/databases/database-copies.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { pointInTimeHost } from '../../../kit/databases/point-in-time-host.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()
const timeoutMs = 900_000

async function scene(t: ExecutionContext, store?: Parameters<typeof pointInTimeHost>[1]) {
  t.timeout(timeoutMs)
  const host = await pointInTimeHost((await database).db, store)
  t.teardown(host.clean)
  await host.serve()
  return host
}

test.serial(
  'a restore to the second before a table was dropped brings it back, and one to before that restore, too',
  async t => {
    const host = await scene(t)
    const { sql } = host
    const count = () => sql('select count(*)::int as count from orders')
    await sql('create table orders (n int)')
    await host.backUp()
    await sql('insert into orders select generate_series(1, 1000)')
    const full = await host.now()
    await sql('drop table orders')
    await sql('create table later (n int)')
    const dropped = await host.now()

    await host.restore(full)
    t.deepEqual(await count(), [{ count: 1000 }])
    t.deepEqual(await sql(`select to_regclass('later') as later`), [{ later: null }])
    const ranges = await host.ranges()
    t.is(ranges.length, 1, 'no moment around the restore is lost')

    await sql('insert into orders values (1001)')
    const more = await host.now()
    await sql('delete from orders')
    t.log('its own changes, on its own timeline')
    await host.restore(more)
    t.deepEqual(await count(), [{ count: 1001 }])
    const { timeline } = (await host
      .db('database_backups')
      .where({ database_id: host.id })
      .orderBy('from_at', 'desc')
      .first())!
    t.is(Number(timeline), 3)

    t.log('the volume of before the first restore is no longer read')
    await host.volumes.remove(`${host.id}-1`)
    await host.restore(dropped)
    t.deepEqual(await sql(`select to_regclass('orders') as orders, to_regclass('later')::text as later`), [
      { orders: null, later: 'later' },
    ])
    await host.restore(full)
    t.deepEqual(await count(), [{ count: 1000 }])
  },
)

test.serial('a database that is stopped, or whose engine was killed, is restored up to its end', async t => {
  const host = await scene(t)
  const { sql } = host
  const numbers = async () => (await sql('select n from orders order by n')).map(({ n }) => n)
  await host.backUp()
  await sql('create table orders (n int)')
  await sql('insert into orders values (1)')
  await host.stop()
  t.log('its last commit is before this moment, and its WAL ends before it')
  await host.restore(new Date())
  await host.start()
  t.deepEqual(await numbers(), [1])

  await sql('insert into orders values (2)')
  const killed = await host.now()
  await host.kill()
  await host.restore(killed)
  await host.start()
  t.deepEqual(await numbers(), [1, 2], 'the engine was started where nobody reaches it to archive its last changes')
})

test.serial('files that were left out make a gap: until the next base backup nothing is restored', async t => {
  const host = await scene(t)
  const { db, sql } = host
  await sql('create table orders (n int)')
  await host.backUp()
  await host.copy()
  const good = await host.now()
  t.log('nobody takes the files: later ones are left out, and the engine keeps none of them')
  for (let file = 0; file < 20; file++) {
    await sql(`insert into orders values (${file})`)
    await host.endFile()
  }
  t.is((await host.archived()).filter(name => name.length === 24).length, 16)
  t.true((await host.archived()).includes('gap'))
  await sql('insert into orders values (99)')
  const lost = await host.now()
  await host.copy()
  t.deepEqual(await host.archived(), [])
  const [range, ...others] = await host.ranges()
  t.deepEqual(others, [])
  t.true(range!.from < good && range!.to >= good && range!.to < lost, 'the end is that of the last file without a gap')
  const error = await t.throwsAsync(host.restore(lost))
  t.regex(
    error!.message,
    new RegExp(`It can be restored to any second from ${range!.from.toISOString()} to ${range!.to.toISOString()}`),
  )

  await host.backUp()
  await sql('delete from orders')
  t.is((await host.ranges()).length, 2)
  await host.restore((await host.ranges())[1]!.from)
  t.deepEqual(await sql('select max(n) as max from orders'), [{ max: 99 }])
  t.deepEqual(
    await db('database_backups').where({ database_id: host.id, generation: 1 }).orderBy('from_at').pluck('broken'),
    [true, false],
  )
  t.log('nothing was committed between the last commit of the last file and its end')
  await host.restore(range!.to)
  const [{ max }] = await sql('select max(n) as max from orders')
  t.true(max >= 10 && max < 20, `all files without a gap, until ${max}`)
})

test.serial(
  'while 400 MB are written in one go, nothing is left out, and any moment around it can be restored',
  async t => {
    const host = await scene(t)
    const { db, sql, id, part } = host
    await db('databases').where({ id }).update({ provisioned_at: db.fn.now(), status: 'running' })
    await host.backUp()
    const watch = new AbortController()
    const options = { db, hostId: host.docker.run, pointInTime: part, sharedUid: null, log: pino({ enabled: false }) }
    const watched = watchDatabaseCopies(options, watch.signal)
    try {
      await sql('create table bulk (n int, text text)')
      const text = `repeat(md5(n::text), 25)`
      await sql(`alter table bulk alter text set storage plain`)
      // As many files as may wait on both sides, so that only a store that takes no file for 8 s breaks the chain, and no slow machine.
      for (let part = 0; part < 3; part++)
        await sql(`insert into bulk select n, ${text} from generate_series(1, 160000) n`)
      const full = await host.now()
      await sql('truncate bulk')
      await host.endFile()
      const rows = () => db('database_wal').where({ database_id: id }).count('* as files').first()
      await comesTrue(async () => (await host.archived()).length === 0, 120)
      const files = Number((await rows())!.files)
      t.true(files > pointInTimeRules.maxWaiting, `${files} files`)
      t.deepEqual(await db('database_backups').where({ database_id: id }).pluck('broken'), [false])
      t.is((await db('database_copies').where({ database_id: id }).first('gap_at')).gap_at, null)
      watch.abort()
      await watched
      await host.restore(full)
      t.deepEqual(await sql('select count(*)::int as count from bulk'), [{ count: 480_000 }])
    } finally {
      watch.abort()
      await watched
    }
  },
)

test.serial(
  'a restore stores first what waits in the volume that it gives up, the one before the last restore',
  async t => {
    let away = false
    const host = await scene(t, store => ({
      ...store,
      get: store.get.bind(store),
      put: (...args) => (away ? Promise.reject(new Error('The object store is away.')) : store.put(...args)),
    }))
    const { sql, part, signal } = host
    await host.backUp()
    await sql('create table orders (n int)')
    const empty = await host.now()
    await host.restore(empty)
    const former = { databaseId: host.id, generation: 1 }
    const archive = join(host.volumes.path(`${host.id}-1`), 'files', 'wal')
    const waiting = () => readdirSync(archive).filter(name => walFileOf(name) !== null)
    t.log('nobody has looked at what its engine has ended with')
    const file = { timeline: 1, number: (await newestWalNumber(host.db, { ...former, timeline: 1 }))! + 1 }
    const bytes = Buffer.alloc(pointInTimeRules.fileBytes)
    bytes.writeBigUInt64LE(BigInt(file.number) * BigInt(bytes.length), 8)
    writeFileSync(join(archive, walFileName(file)), bytes)

    away = true
    await t.throwsAsync(part.beforeRestore(await host.facts(), signal), {
      message: /this restore gives up their volume: The object store is away/,
    })
    const soon = new Date(Date.now() + 50 * 60_000)
    const until = async () => (await loadDatabase(host.db, host.id))!.retired_until
    t.true((await until())! > soon, 'its host retains it meanwhile')
    away = false
    await part.beforeRestore(await host.facts(), signal)
    t.deepEqual(waiting(), [])
    t.truthy(await findWalSegment(host.db, { ...former, ...file }))

    const { faults, path } = host.volumes
    host.volumes.faults = async ids => new Map(ids.map(id => [id, 'not mounted']))
    await t.throwsAsync(part.beforeRestore(await host.facts(), signal), { message: /It is not mounted/ })
    host.volumes.faults = faults
    for (const [code, passes] of [
      ['EMFILE', false],
      ['EIO', true],
    ] as const) {
      host.volumes.path = id => {
        if (id === `${host.id}-1`) throw Object.assign(new Error(code), { code })
        return path(id)
      }
      const trying = part.beforeRestore(await host.facts(), signal)
      if (passes) await t.notThrowsAsync(trying, 'a disk that has failed prevents no restore')
      else await t.throwsAsync(trying, { message: new RegExp(code) })
    }
    host.volumes.path = path
    away = true
    await host.volumes.remove(`${host.id}-1`)
    await t.notThrowsAsync(part.beforeRestore(await host.facts(), signal), 'nor does one that is lost')
  },
)
