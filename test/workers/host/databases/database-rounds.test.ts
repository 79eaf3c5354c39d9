import test from 'ava'
import { databaseJobRole, databaseRole } from '../../../../activities/databases/names.ts'
import * as databases from '../../../../db/databases/databases.ts'
import { watchDatabases } from '../../../../workers/host/databases/database-watch.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase({ ownServer: true })

/** A host whose databases run as recorded, and rounds that have compared everything once and follow the events. */
async function hostOf(count: number, changes = {}) {
  const host = await watchedHost((await database).db, changes)
  const all = []
  for (let n = 0; n < count; n++) all.push(await host.serving())
  host.rounds.follow(true)
  await host.rounds.round()
  const round = async () => {
    host.engine.listed.length = 0
    host.admitted.length = 0
    const whole = await host.rounds.round()
    return { whole, listed: [...host.engine.listed], admitted: host.admitted.length }
  }
  return { ...host, all, ids: all.map(({ id }) => id), round }
}

test.serial(
  'a round checks databases with an event or a changed row, and no others, and then admits what runs',
  async t => {
    const { all, ids, round, rounds, crash, db, row } = await hostOf(2)
    const [one, two] = ids as [string, string]
    const idle = { whole: false, listed: [], admitted: 0 }
    t.deepEqual(await round(), idle)
    rounds.see(one)
    t.deepEqual(await round(), { whole: false, listed: [one], admitted: 1 })
    t.deepEqual(await round(), idle)
    crash(all[1]!)
    t.deepEqual(await round(), idle, 'it had no event')
    await db('databases').where({ id: two }).update({ started_at: new Date() })
    t.deepEqual(await round(), { whole: false, listed: [two], admitted: 1 })
    t.is((await row(two)).status, 'exited')
    t.deepEqual((await round()).listed, [two], 'a restart is due')
  },
)

test.serial('everything is compared when it is time, in a new boot, and for a container without a row', async t => {
  const { round } = await hostOf(1, { everythingSeconds: 0 })
  t.true((await round()).whole)
  const slow = await hostOf(1)
  t.false((await slow.round()).whole)
  slow.boot.id = 'boot-2'
  t.true((await slow.round()).whole)
  await slow.round() // at what has been recorded
  t.false((await slow.round()).whole)
  await slow.db('databases').where({ id: slow.ids[0] }).delete()
  t.false((await slow.round()).whole)
  t.true((await slow.round()).whole)
})

test.serial('many changed databases are found in one list', async t => {
  const { all, ids, round, rounds, crash, row } = await hostOf(21)
  for (const id of ids) rounds.see(id)
  crash(all[20]!)
  t.deepEqual((await round()).listed, [databaseRole, databaseJobRole])
  t.is((await row(ids[20]!)).status, 'exited')
})

test.serial('a database that the firewall did not admit is admitted in the next round', async t => {
  let refused = 0
  const admit = async () => {
    if (refused++ === 0) throw new Error('iptables is busy')
  }
  const { round, rounds, ids, logged } = await hostOf(1, { admit })
  t.is(refused, 1)
  t.is(logged.filter(({ msg }) => msg === 'firewall: databases are not admitted yet').length, 1)
  t.deepEqual((await round()).listed, [])
  t.is(refused, 2)
  await round()
  t.is(refused, 2)
  rounds.see(ids[0]!)
  await round()
  t.is(refused, 3)
})

test.serial('the watch restarts an engine when it is due, and admits it when it runs', async t => {
  const { serving, engine, hostId, admitted, db, options, row } = await watchedHost((await database).db)
  const one = await serving()
  const ending = new AbortController()
  const watch = watchDatabases({ ...options, now: Date.now, everySeconds: 600 }, ending.signal)
  await comesTrue(() => admitted.length > 0)
  await comesTrue(async () => (await row(one.id)).status === 'running')
  const before = engine.listed.length
  await engine.stop(one.name, 1)
  await comesTrue(async () => (await row(one.id)).restarts === 1)
  const isQueued = async () => Boolean(await db('operations').where({ target_id: one.id, kind: 'start' }).first('id'))
  await comesTrue(isQueued)
  t.true(engine.listed.slice(before).every(what => what === one.id))

  const admittedBefore = admitted.length
  await engine.start(one.name)
  await comesTrue(() => admitted.length > admittedBefore)
  await db('operations').where({ target_id: one.id }).update({ state: 'success' })
  ending.abort()
  await watch
  t.is((await databases.listDatabasesOfHost(db, hostId)).length, 1)
})
