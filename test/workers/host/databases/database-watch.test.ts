import test from 'ava'
import * as databases from '../../../../db/databases/databases.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()
const host = async (changes = {}) => watchedHost((await database).db, changes)

test('an engine that ended is recorded with its code, and started again once when its delay has passed', async t => {
  const { serving, crash, look, later, row, queued, rounds, clock, ownerId } = await host()
  const one = await serving()
  await look()
  t.like(await row(one.id), { status: 'running', restarts: 0 })
  crash(one, { exitCode: 137, oom: true })
  await look()
  const due = new Date(clock.now + 1000)
  t.like(await row(one.id), { status: 'exited', exit_code: 137, exit_oom: true, restarts: 1, restart_at: due })
  t.deepEqual(await queued(one.id), [])
  t.is(rounds.pauseMs(false), 1000, 'the next round comes when it is due')
  later(0.999)
  await rounds.round()
  t.deepEqual(await queued(one.id), [])
  later(0.001)
  await look()
  const start = { target_type: 'database', kind: 'start', actor: 'host-watch', owner_id: ownerId }
  t.deepEqual(await queued(one.id), [start])
  t.like(await row(one.id), { restart_at: null, restarts: 1, desired_state: 'running' })
  await look()
  t.deepEqual(await queued(one.id), [start], 'once')
  t.is(rounds.pauseMs(false), 5000)
})

test('a restart that is due does not hurry rounds that fail, nor those after its database was deleted', async t => {
  const { db, serving, crash, look, later, rounds } = await host()
  const one = await serving()
  rounds.follow(true)
  await look()
  crash(one)
  await look()
  later(10)
  t.is(rounds.pauseMs(false), 0)
  t.is(rounds.pauseMs(true), 5000, 'Postgres may be down')
  await db('databases').where({ id: one.id }).delete()
  await rounds.round()
  t.is(rounds.pauseMs(false), 5000, 'without a comparison of everything')
})

test('an engine that crashes again and again waits longer each time, stays down after the fifth, and begins anew when somebody starts it', async t => {
  const { db, serving, put, crash, look, later, row, queued, ends, logged, clock } = await host()
  const one = await serving()
  const starts = async () => {
    const startedAt = new Date(clock.now)
    await databases.recordDatabaseStarted(db, one.id, { containerId: `c-${one.volume}`, startedAt, bootId: 'boot-1' })
    put(one)
  }
  for (const seconds of [1, 5, 15, 60]) {
    crash(one)
    await look()
    t.is((await row(one.id)).restart_at?.getTime(), clock.now + seconds * 1000)
    later(seconds)
    await look()
    t.is((await queued(one.id)).length, 1)
    await ends(one.id, 'success')
    await starts()
    await look()
    later(30)
  }
  t.like(await row(one.id), { status: 'running', restarts: 4 })
  crash(one)
  await look()
  t.like(await row(one.id), { status: 'exited', restarts: 5, restart_at: null, desired_state: 'running' })
  const reported = logged.filter(({ level }) => level === 50)
  t.deepEqual(
    reported.map(({ databaseId, msg }) => [databaseId, msg]),
    [[one.id, 'watch: the engine of a database ends again and again, and stays down until somebody starts it']],
  )
  later(86_400)
  await look()
  t.deepEqual(await queued(one.id), [])

  await starts()
  await look()
  t.like(await row(one.id), { status: 'running', restarts: 0 })
  later(10)
  crash(one)
  await look()
  t.like(await row(one.id), { restarts: 1, restart_at: new Date(clock.now + 1000) })
})

test('a crash after 10 minutes is the first one again, and crashes are forgotten while the engine runs', async t => {
  const { serving, crash, look, later, row, clock } = await host()
  const one = await serving(0, { restarts: 3 })
  later(599)
  await look()
  t.is((await row(one.id)).restarts, 3)
  later(1)
  await look()
  t.is((await row(one.id)).restarts, 0)
  const two = await serving(600, { restarts: 4 })
  crash(two)
  await look()
  t.like(await row(two.id), { restarts: 1, restart_at: new Date(clock.now + 1000) })
})

test('an engine that ends in each restart has crashed each time, and stays down after the fifth', async t => {
  const { serving, crash, look, later, row, queued, ends, clock } = await host()
  const one = await serving()
  crash(one)
  await look()
  for (const seconds of [5, 15, 60]) {
    later(60)
    await look()
    t.is((await queued(one.id)).length, 1)
    await ends(one.id, 'error')
    later(1)
    crash(one, { exitCode: 1 })
    await look()
    t.like(await row(one.id), { exit_code: 1, restart_at: new Date(clock.now + seconds * 1000) })
  }
  later(60)
  await look()
  await ends(one.id, 'error')
  later(1)
  crash(one)
  await look()
  t.like(await row(one.id), { status: 'exited', restarts: 5, restart_at: null })
})

test('a start that its host could not make is no crash, and is tried again without end, after 5 minutes at most', async t => {
  const { serving, crash, look, later, row, queued, ends, engine } = await host()
  const crashed = await serving()
  const lost = await serving()
  crash(crashed)
  await look()
  engine.containers.delete(lost.name)
  later(1)
  await look()
  for (const seconds of [5, 10, 20, 40, 80, 160, 300, 300, 300]) {
    for (const { id } of [crashed, lost]) {
      t.is((await queued(id)).length, 1, `before a pause of ${seconds} s`)
      await ends(id, 'error')
    }
    later(seconds - 0.001)
    await look()
    for (const { id } of [crashed, lost]) t.deepEqual(await queued(id), [], `before ${seconds} s have passed`)
    later(0.001)
    await look()
  }
  t.like(await row(crashed.id), { status: 'exited', restarts: 1, restart_at: null, exit_code: 139 })
  t.like(await row(lost.id), { status: 'exited', restarts: 0, restart_at: null })
})

test('a start that nobody is about any more, and left no container that ended, is no crash', async t => {
  const { db, serving, look, row, queued, engine } = await host()
  const one = await serving()
  const endedAt = new Date(Date.now() - 3_600_000)
  await db('databases').where({ id: one.id }).update({ status: 'starting', exit_at: endedAt })
  engine.containers.delete(one.name)
  await look()
  t.like(await row(one.id), { status: 'exited', restarts: 0, restart_at: null })
  t.deepEqual((await row(one.id)).exit_at, endedAt, 'it has not run since')
  await look()
  t.is((await queued(one.id)).length, 1)
})

test('a stopped database stays stopped, and one that runs although it was stopped is ended with the time that its engine needs', async t => {
  const { db, serving, crash, look, later, row, queued, engine } = await host()
  const ended = await serving()
  await databases.recordDatabaseDesired(db, ended.id, 'stopped')
  crash(ended, { exitCode: 0 })
  const left = await serving(60, { engine: 'mysql', version: '9' })
  await databases.recordDatabaseDesired(db, left.id, 'stopped')
  await look()
  t.like(await row(ended.id), { status: 'exited', exit_code: 0, restarts: 0, restart_at: null })
  t.deepEqual(engine.ended, [`stop ${left.name} within 60`])
  await look()
  t.like(await row(left.id), { status: 'exited', restart_at: null })
  later(3600)
  await look()
  for (const { id } of [ended, left]) t.deepEqual(await queued(id), [])
})

test('nothing is done while an operation waits or runs, or the database is locked', async t => {
  const { db, serving, crash, look, row, engine, operation, ends, options } = await host()
  const busy = await serving()
  const locked = await serving()
  const stopped = await serving()
  await operation(busy.id, 'rotate')
  await databases.recordDatabaseDesired(db, stopped.id, 'stopped')
  crash(busy)
  crash(locked)
  const unlock: (() => void)[] = []
  const held = [locked, stopped].map(({ id }) => options.locks(id, () => new Promise<void>(done => unlock.push(done))))
  await look()
  for (const { id } of [busy, locked]) t.like(await row(id), { status: 'running', restarts: 0 })
  t.deepEqual(engine.ended, [])
  for (const end of unlock) end()
  await Promise.all(held)
  await ends(busy.id, 'error')
  await look()
  for (const { id } of [busy, locked]) t.like(await row(id), { status: 'exited', restarts: 1 })
  t.deepEqual(engine.ended, [`stop ${stopped.name} within 30`])
})

test('a start while the watch waits to stop a database is not undone', async t => {
  const { db, serving, look, engine, options, operation } = await host()
  const { id } = await serving()
  await databases.recordDatabaseDesired(db, id, 'stopped')
  const { inspect } = engine
  engine.inspect = async name => {
    const state = await inspect.call(engine, name)
    // After the decision was prepared, and before the lock is free.
    void options.locks(id, () => operation(id, 'start').then(() => {}))
    return state
  }
  await look()
  t.deepEqual(engine.ended, [])
})

test('after a reboot databases that ran are brought back, with delays that grow while that fails; stopped ones stay stopped', async t => {
  const { db, serving, crash, look, later, row, queued, ends, boot } = await host()
  const ran = await serving()
  const lost = await serving()
  const stopped = await serving()
  await databases.recordDatabaseDesired(db, stopped.id, 'stopped')
  await databases.recordDatabaseStopped(db, stopped.id, { code: 0, oom: false, at: new Date() })
  for (const one of [ran, stopped]) crash(one)
  boot.id = 'boot-2'
  await look()
  t.like(await row(ran.id), { status: 'exited', exit_code: null, restarts: 0 })
  t.is((await queued(ran.id)).length, 1)
  t.deepEqual(await queued(stopped.id), [])
  t.like(await row(lost.id), { status: 'running', boot_id: 'boot-2' }, 'it survived')
  await ends(ran.id, 'error')
  later(4)
  await look()
  t.deepEqual(await queued(ran.id), [])
  later(1)
  await look()
  t.is((await queued(ran.id)).length, 1)
  await ends(ran.id, 'error')
  later(9)
  await look()
  t.deepEqual(await queued(ran.id), [])
})

test('a database whose container the engine has lost is brought back', async t => {
  const { serving, look, engine, queued, row } = await host()
  const one = await serving()
  engine.containers.delete(one.name)
  await look()
  t.is((await queued(one.id)).length, 1)
  t.like(await row(one.id), { status: 'exited', started_at: null, exit_code: null, restarts: 0 })
})

test('an end that the end of the container engine has caused is no crash', async t => {
  const { serving, crash, look, row, queued, engine, boot } = await host()
  const one = await serving()
  crash(one)
  const { inspect } = engine
  engine.inspect = async name => {
    boot.id = 'boot-1/restarted'
    return inspect.call(engine, name)
  }
  await look()
  t.like(await row(one.id), { status: 'running', restarts: 0 })
  await look()
  t.like(await row(one.id), { status: 'exited', exit_code: null, restarts: 0 })
  t.is((await queued(one.id)).length, 1)
})

test('a database that runs is recorded as running, and one that was paused by hand continues', async t => {
  const { add, put, serving, look, row, engine, clock } = await host()
  const one = await add({ status: 'exited', restarts: 2, restart_at: new Date(clock.now + 60_000) })
  put(one)
  const paused = await serving()
  put(paused, { status: 'paused' })
  await look()
  t.like(await row(one.id), { status: 'running', boot_id: 'boot-1', restart_at: null, exit_code: null })
  t.is((await engine.inspect(paused.name))?.status, 'running')
})

test('a host process that was replaced records nothing and starts nothing', async t => {
  const held = async () => Promise.reject(new Error('another process is this host now'))
  const { serving, crash, look, row, queued, clock, add } = await host({ held })
  const one = await serving()
  crash(one)
  const due = await add({ status: 'exited', restarts: 1, restart_at: new Date(clock.now) })
  await look()
  t.like(await row(one.id), { status: 'running', restarts: 0 })
  t.deepEqual(await queued(due.id), [])
  t.truthy((await row(due.id)).restart_at)
})

test('a stop while the watch looks at a database that ended is not undone, whether it has ended or waits', async t => {
  let meanwhile = async () => {}
  const { db, serving, add, look, crash, queued, boot, clock, operation } = await host({ held: () => meanwhile() })
  const ran = [await serving(), await serving()]
  for (const one of ran) crash(one)
  const due = await add({ status: 'exited', restarts: 1, restart_at: new Date(clock.now) })
  boot.id = 'boot-2'
  const [stopped, waiting] = ran as [(typeof ran)[0], (typeof ran)[0]]
  // After the decisions.
  meanwhile = async () => {
    if ((await db('operations').where({ target_id: waiting.id })).length > 0) return
    await databases.recordDatabaseDesired(db, stopped.id, 'stopped')
    for (const { id } of [waiting, due]) await operation(id, 'stop')
  }
  await look()
  t.deepEqual(await queued(stopped.id), [])
  for (const { id } of [waiting, due])
    t.deepEqual(
      (await queued(id)).map(({ kind }) => kind),
      ['stop'],
    )
})

test('a database that the engine cannot inspect delays no others', async t => {
  const { serving, crash, look, row, engine } = await host()
  const mute = await serving()
  const other = await serving()
  for (const one of [mute, other]) crash(one)
  const { inspect } = engine
  engine.inspect = async name => {
    if (name === mute.name) throw new Error('the engine does not tell')
    return inspect.call(engine, name)
  }
  await look()
  t.is((await row(mute.id)).status, 'running')
  t.is((await row(other.id)).status, 'exited')
})
