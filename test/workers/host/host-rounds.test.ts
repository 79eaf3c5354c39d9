import test from 'ava'
import { pino } from 'pino'
import { type ContainerState, labels } from '../../../activities/containers/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import * as apps from '../../../db/apps/apps.ts'
import { openDatabase } from '../../../db/database.ts'
import { openDeployment } from '../../../db/deploys/deployments.ts'
import * as operations from '../../../db/operations/operations.ts'
import { roundSeconds } from '../../../policy/rounds.ts'
import { HostRounds } from '../../../workers/host/host-rounds.ts'
import { watchHost } from '../../../workers/host/host-watch.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase({ ownServer: true })
const log = pino({ level: 'silent' })

/** Of which applications containers were listed: `all`, or an id. */
class ListingEngine extends FakeContainerHost {
  readonly listed: string[] = []

  override async list(filter: Record<string, string>) {
    this.listed.push(filter[labels.app] ?? 'all')
    return super.list(filter)
  }
}

/** A host whose applications run as recorded, and rounds that have compared everything once. */
async function hostOf(count: number) {
  const { db } = await database
  const make = rows(db)
  const hostId = `h-${Math.random().toString(36).slice(2)}`
  await make.host(hostId, { memoryMb: 1_000_000 })
  const engine = new ListingEngine()
  const user = await make.user()
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const { app } = await make.app(user.id, { memoryMb: 256, subdomain: null }, { plans: plansOfMemory(1_000_000) })
    await db('apps').where({ id: app.id }).update({ host_id: hostId })
    await db('operations').where({ target_id: app.id }).update({ state: 'success' })
    const startedAt = new Date(Date.now() - 120_000)
    await apps.recordStarted(db, app.id, {
      ...{ release: 1, containerId: `c-${app.id}`, hostPort: null, bootId: 'boot-1', startedAt },
    })
    ids.push(app.id)
  }
  const put = (id: string, changes: Partial<ContainerState> = {}) =>
    engine.put({
      ...{ id: `c-${id}`, name: `berth-${id}-1`, status: 'running', running: true, exitCode: null, oom: false },
      ...{ startedAt: new Date(), finishedAt: null, hostPort: null, hostAddress: null, address: null },
      labels: { [labels.host]: hostId, [labels.app]: id, [labels.release]: '1', [labels.role]: 'app' },
      ...changes,
    })
  for (const id of ids) put(id)
  /** It ends without an event. */
  const end = (id: string) => put(id, { status: 'exited', running: false, exitCode: 1, finishedAt: new Date() })
  let now = 0
  const later = (seconds: number) => {
    now += seconds * 1000
  }
  const boot = { id: 'boot-1', settle: async () => boot.id }
  const locks = appLocks()
  const volumes = { list: async () => [] } as never
  const options = { db, engine, hostId, boot, log, locks, volumes, now: () => now }
  const rounds = new HostRounds(options)
  rounds.follow(true)
  await rounds.round()
  const round = async () => {
    engine.listed.length = 0
    const whole = await rounds.round()
    return { whole, listed: [...engine.listed] }
  }
  const statusOf = async (id: string) => (await apps.loadApp(db, id))!.status
  return { db, engine, ids, put, end, later, boot, locks, options, rounds, round, statusOf, ownerId: user.id }
}

test.serial('a round checks applications with an event or a changed row, and no others', async t => {
  const { db, ids, end, round, rounds, statusOf } = await hostOf(3)
  const [one, two] = ids as [string, string]
  t.deepEqual(await round(), { whole: false, listed: [] })
  end(one)
  rounds.see(one)
  t.deepEqual(await round(), { whole: false, listed: [one] })
  t.is(await statusOf(one), 'exited')
  await round() // at what has just been recorded
  t.deepEqual(await round(), { whole: false, listed: [] })
  end(two)
  await db('apps').where({ id: two }).update({ started_at: new Date() })
  t.deepEqual(await round(), { whole: false, listed: [two] })
  t.is(await statusOf(two), 'exited')
})

test.serial(
  'an application whose row is committed late is checked, whatever was committed and compared meanwhile',
  async t => {
    const { db, ids, round } = await hostOf(2)
    const [early, late] = ids as [string, string]
    const slow = openDatabase({ url: (await database).url, pool: 1 })
    t.teardown(() => slow.destroy())
    const held = await slow.transaction()
    const touched = { desired_state: 'stopped' }
    await held('apps').where({ id: early }).update(touched)
    await db('apps').where({ id: late }).update({ started_at: new Date() })
    t.deepEqual((await round()).listed, [late])
    await held.commit()
    t.true((await round()).listed.includes(early))
  },
)

test.serial('an application that is not in its desired state is checked in every round until it is', async t => {
  const { db, ids, end, engine, round, rounds, statusOf, ownerId } = await hostOf(2)
  const [busy, mute] = ids as [string, string]
  const { id } = await operations.enqueueOperation(db, { targetId: busy, kind: 'restart', ownerId, actor: ownerId })
  for (const one of [busy, mute]) {
    end(one)
    rounds.see(one)
  }
  const inspect = engine.inspect.bind(engine)
  engine.inspect = async name => {
    if (name.includes(mute)) throw new Error('the engine does not tell')
    return inspect(name)
  }
  for (let n = 0; n < 3; n++) t.deepEqual((await round()).listed.sort(), [busy, mute].sort())
  t.deepEqual([await statusOf(busy), await statusOf(mute)], ['running', 'running'])
  engine.inspect = inspect
  await db('operations').where({ id }).update({ state: 'error' })
  t.false((await round()).whole)
  t.deepEqual([await statusOf(busy), await statusOf(mute)], ['exited', 'exited'])
})

test.serial('applications that fail in every round do not keep later ones from being checked', async t => {
  const { ids, end, engine, round, rounds, statusOf } = await hostOf(4)
  const [newest, ...mute] = [...ids].reverse() as [string, ...string[]]
  for (const one of ids) {
    end(one)
    rounds.see(one)
  }
  const inspect = engine.inspect.bind(engine)
  engine.inspect = async name => {
    if (mute.some(id => name.includes(id))) throw new Error('the engine does not answer')
    return inspect(name)
  }
  await t.throwsAsync(round(), { message: /several applications in a row/ })
  t.false((await round()).whole)
  t.is(await statusOf(newest), 'exited')
  engine.inspect = inspect
  await round()
  for (const one of mute) t.is(await statusOf(one), 'exited')
})

test.serial('a build, and a version that does not serve, are checked until they have ended', async t => {
  const { db, ids, engine, put, round, rounds, ownerId } = await hostOf(2)
  const [building, deployed] = ids as [string, string]
  const { id } = await operations.enqueueOperation(db, { targetId: building, kind: 'deploy', ownerId, actor: ownerId })
  await openDeployment(db, {
    ...{ appId: building, operationId: id, release: 2, revision: '', segmentId: null, source: 'upload' },
  })
  const own = (appId: string, role: string) => {
    const { labels: of } = engine.containers.get(`berth-${appId}-1`)!.state
    return { ...of, [labels.release]: '2', [labels.role]: role }
  }
  put(building, { id: 'build', name: `berth-${building}-2-build`, labels: own(building, 'build') })
  put(deployed, { id: 'next', name: `berth-${deployed}-2`, labels: own(deployed, 'app') })
  await db('apps').where({ id: deployed }).update({ release: 2, container_id: 'next', started_at: new Date() })
  rounds.see(building)
  for (let n = 0; n < 2; n++) t.deepEqual((await round()).listed.sort(), [building, deployed].sort())
  await db('operations').where({ id }).update({ state: 'cancelled' })
  await db.raw(`update apps set started_at = now() - interval '2 minutes' where id = ?`, [deployed])
  await round()
  t.false(engine.containers.has(`berth-${building}-2-build`))
  t.false(engine.containers.has(`berth-${deployed}-1`))
  await round()
  t.deepEqual((await round()).listed, [])
})

test.serial('a failed round forgets no changes', async t => {
  const { ids, end, engine, round, rounds, statusOf } = await hostOf(1)
  end(ids[0]!)
  rounds.see(ids[0]!)
  engine.unreachable = true
  await t.throwsAsync(round())
  engine.unreachable = false
  t.deepEqual(await round(), { whole: false, listed: ids })
  t.is(await statusOf(ids[0]!), 'exited')
})

test.serial(
  'everything is compared once a minute, in a new boot, without events, and when the database was replaced',
  async t => {
    const { db, ids, end, put, boot, later, round, rounds, statusOf } = await hostOf(1)
    const [id] = ids as [string]
    end(id)
    later(roundSeconds.everything - 1)
    t.false((await round()).whole)
    t.is(await statusOf(id), 'running')
    later(1)
    t.true((await round()).whole)
    t.is(await statusOf(id), 'exited')

    put(id)
    boot.id = 'boot-2'
    t.true((await round()).whole)
    t.is(await statusOf(id), 'running')
    await round()
    t.false((await round()).whole)

    rounds.follow(false)
    for (let n = 0; n < 2; n++) t.true((await round()).whole)
    rounds.follow(true)
    t.true((await round()).whole, 'what happened before it was followed')
    t.false((await round()).whole)

    await db.raw('truncate app_changes, app_change_epochs') // as a crash of Postgres leaves them
    t.true((await round()).whole)
  },
)

test.serial('a container of an application without a row causes a full comparison', async t => {
  const { put, round, rounds, engine } = await hostOf(6)
  const stranger = 'f'.repeat(24)
  put(stranger)
  rounds.see(stranger)
  t.false((await round()).whole)
  t.true((await round()).whole)
  t.is((await engine.inspect(`berth-${stranger}-1`))?.running, false, 'it is set aside')
})

test.serial('many changed applications are found in one list', async t => {
  const { ids, end, round, rounds, statusOf } = await hostOf(21)
  for (const id of ids) rounds.see(id)
  end(ids[20]!)
  t.deepEqual(await round(), { whole: false, listed: ['all'] })
  t.is(await statusOf(ids[20]!), 'exited')
})

test.serial('changes that an interrupted event stream missed are found when it is open again', async t => {
  const { options, engine, ids, end, put, rounds, statusOf } = await hostOf(2)
  const [cut, reported] = ids as [string, string]
  const ending = new AbortController()
  const { now: _, ...own } = options
  const watched = watchHost({ ...own, everySeconds: 600 }, ending.signal, rounds)
  await comesTrue(async () => engine.listed.includes('all'))
  engine.unreachable = true
  end(cut)
  engine.unreachable = false
  await comesTrue(async () => (await statusOf(cut)) === 'exited')

  // From then on events arrive again, also that of a container paused by hand.
  await engine.stop(`berth-${reported}-1`, 1)
  await comesTrue(async () => (await statusOf(reported)) === 'exited')
  put(cut)
  await engine.pause(`berth-${cut}-1`)
  await comesTrue(async () => (await engine.inspect(`berth-${cut}-1`))?.status === 'running')
  ending.abort()
  await watched
  t.pass()
})
