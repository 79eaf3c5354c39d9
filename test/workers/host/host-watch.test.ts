import { getEventListeners } from 'node:events'
import test from 'ava'
import { pino } from 'pino'
import { type ContainerState, HostUnreachable, labels } from '../../../activities/containers/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import * as apps from '../../../db/apps/apps.ts'
import { openDeployment } from '../../../db/deploys/deployments.ts'
import * as operations from '../../../db/operations/operations.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { bringBackDelay } from '../../../policy/hosts/reconciliation.ts'
import { hostBoot } from '../../../workers/host/host-boot.ts'
import { reconcile } from '../../../workers/host/host-comparison.ts'
import { watchHost } from '../../../workers/host/host-watch.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { inBoot } from '../../kit/hosts/boots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

/** An engine that notes what is ended there. */
class NotingEngine extends FakeContainerHost {
  readonly ended: string[]

  constructor(ended: string[]) {
    super()
    this.ended = ended
  }

  override async remove(name: string) {
    this.ended.push(name)
    await super.remove(name)
  }

  override async stop(name: string, graceSeconds: number) {
    this.ended.push(`stop ${name}`)
    await super.stop(name, graceSeconds)
  }
}

/** An engine that has exactly these containers, all of this host; what is removed or stopped is noted. */
function engineWith(hostId: string, containers: ContainerState[], ended: string[] = []): FakeContainerHost {
  const engine = new NotingEngine(ended)
  for (const one of containers) engine.put({ ...one, labels: { [labels.host]: hostId, ...one.labels } })
  return engine
}

const container = (app: { id: string }, changes: Partial<ContainerState> = {}): ContainerState => ({
  id: 'c1',
  name: `berth-${app.id}-1`,
  labels: { [labels.app]: app.id, [labels.release]: '1', [labels.role]: 'app' },
  status: 'running',
  running: true,
  exitCode: null,
  oom: false,
  startedAt: new Date(),
  finishedAt: null,
  hostPort: 4000,
  hostAddress: '127.0.0.1',
  address: '10.192.0.2',
  ...changes,
})

/** An application that runs since a while on a host of its own, and one look at that host. */
async function running(changes: { autorestart?: boolean } = {}) {
  const { db } = await database
  const make = rows(db)
  const hostId = `h-${Math.random().toString(36).slice(2)}`
  const user = await make.user()
  await make.host(hostId, { memoryMb: 1_000_000_000 - Math.floor(Math.random() * 1e6) })
  const { app } = await make.app(user.id, changes)
  await db('apps').where({ id: app.id }).update({ host_id: hostId })
  await db('operations').where({ target_id: app.id }).update({ state: 'success' })
  const startedAt = new Date(Date.now() - 120_000)
  await apps.recordStarted(db, app.id, { release: 1, containerId: 'c1', hostPort: 4000, bootId: 'boot-1', startedAt })
  let now = 0
  const returns = new Backoff({ ...bringBackDelay, now: () => now })
  const later = (seconds: number) => {
    now += seconds * 1000
  }
  const look = (containers: ContainerState[], bootId = 'boot-1', removed: string[] = [], held = async () => {}) =>
    reconcile({
      held,
      returns,
      locks: appLocks(),
      db,
      hostId,
      boot: inBoot(bootId),
      log,
      engine: engineWith(hostId, containers, removed),
      volumes: { list: async () => [] } as never,
    })
  const queued = () => db('operations').where({ target_id: app.id, state: 'queued' }).select('kind', 'actor')
  const row = async () => (await apps.loadApp(db, app.id))!
  return { db, app, hostId, look, queued, row, later }
}

const crashed = { status: 'exited', running: false, hostPort: null, finishedAt: new Date() } as const

test('a crash is recorded with its code, and as out of memory if it was', async t => {
  const { db, app, look, row, queued } = await running()
  await look([container(app, { ...crashed, exitCode: 137, oom: true })])
  t.like(await row(), { status: 'exited', exit_code: 137, exit_oom: true, host_port: null, desired_state: 'running' })
  t.deepEqual(await queued(), [])
  const mails = await db('mails').where({ user_id: app.owner_id }).select('template', 'fields')
  t.deepEqual(mails, [{ template: 'memory-out', fields: { app: 'shop', limitMb: 512 } }])
})

test('AUTORESTART starts an application again, once an hour and never after exit code 0', async t => {
  const restarts = await running({ autorestart: true })
  await restarts.look([container(restarts.app, { ...crashed, exitCode: 1 })])
  t.deepEqual(await restarts.queued(), [{ kind: 'start', actor: 'host-watch' }])
  await restarts.db('operations').where({ target_id: restarts.app.id }).update({ state: 'success' })
  const startedAt = new Date(Date.now() - 90_000)
  await apps.recordStarted(restarts.db, restarts.app.id, {
    release: 1,
    containerId: 'c1',
    hostPort: 4000,
    bootId: 'boot-1',
    startedAt,
  })
  await restarts.look([container(restarts.app, { ...crashed, exitCode: 1 })])
  t.deepEqual(await restarts.queued(), [], 'the second crash within the hour stays one')

  const finishes = await running({ autorestart: true })
  await finishes.look([container(finishes.app, { ...crashed, exitCode: 0 })])
  t.deepEqual(await finishes.queued(), [])
})

test('a host process that was replaced records nothing and ends nothing', async t => {
  const { db, app, hostId, queued, row } = await running({ autorestart: true })
  const ended: string[] = []
  const common = {
    locks: appLocks(),
    db,
    hostId,
    boot: inBoot('boot-1'),
    log,
    volumes: { list: async () => [] } as never,
  }
  const lost = async () => Promise.reject(new Error('another process is this host now'))
  const look = (one: ContainerState, held?: () => Promise<void>) =>
    reconcile({ ...common, held, engine: engineWith(hostId, [one], ended) })
  await look(container(app, { ...crashed, exitCode: 1 }), lost)
  t.like(await row(), { status: 'running', exit_code: null })
  t.deepEqual(await queued(), [])
  await apps.recordDesiredState(db, app.id, 'stopped')
  await apps.recordStopped(db, app.id, { code: 0, oom: false, at: new Date() })
  await look(container(app), lost)
  t.deepEqual(ended, [])
  await look(container(app))
  t.deepEqual(ended, [`stop berth-${app.id}-1`])
})

test('an exit caused by the end of the engine is not recorded as the program’s', async t => {
  const { db, app, hostId, queued, row } = await running({ autorestart: true })
  const ended = container(app, { ...crashed, exitCode: 137 })
  const engine = engineWith(hostId, [ended])
  let standing: () => { began: string; liveRestore: boolean } = () => ({ began: '10:00', liveRestore: false })
  const inspect = engine.inspect.bind(engine)
  /** What happens to the engine once the container was inspected. */
  let then = () => {}
  engine.standing = async () => standing()
  engine.inspect = name => inspect(name).finally(() => then())
  const held = async () => {}
  await db('hosts').where({ id: hostId }).update({ boot_id: 'boot-1' })
  const boot = await hostBoot({ db, engine, hostId, machineBootId: 'boot-1', held, log })
  const options = { db, hostId, boot, log, engine, locks: appLocks(), volumes: { list: async () => [] } as never }
  await boot.settle()

  then = () => {
    standing = () => {
      throw new HostUnreachable('it takes no new line')
    }
  }
  await reconcile(options)
  t.like(await row(), { status: 'running' }, 'nobody knows yet')
  then = () => {}
  standing = () => ({ began: '11:00', liveRestore: false })
  await reconcile(options)
  t.deepEqual(await queued(), [{ kind: 'start', actor: 'host-watch' }])
  t.like(await row(), { status: 'running', last_autorestart_at: null })
  t.is((await db('hosts').where({ id: hostId }).first()).boot_id, 'boot-1/11:00')
  t.is((await hostBoot({ db, engine, hostId, machineBootId: 'boot-1', held, log })).id, 'boot-1/11:00', 'remembered')

  // The engine is still the same one, so the program itself has exited.
  await db('operations').where({ target_id: app.id }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ boot_id: boot.id })
  await reconcile(options)
  t.like(await row(), { status: 'exited', exit_code: 137 })
})

test('a stop while the watch decides to bring an application back is not undone, whether it has ended or waits', async t => {
  const { db, app, look, queued } = await running()
  const ended = [container(app, crashed)]
  await look(ended, 'boot-2', [], async () => apps.recordDesiredState(db, app.id, 'stopped'))
  t.deepEqual(await queued(), [])
  const other = await running()
  const stop = { targetId: other.app.id, kind: 'stop', ownerId: other.app.owner_id, actor: 'ana' } as const
  await other.look(
    [container(other.app, crashed)],
    'boot-2',
    [],
    async () => void (await operations.enqueueOperation(db, stop)),
  )
  t.deepEqual(await other.queued(), [{ kind: 'stop', actor: 'ana' }])
})

test('after a reboot applications that ran are brought back, and stopped ones stay stopped', async t => {
  const ran = await running()
  await ran.look([container(ran.app, { ...crashed, exitCode: 255 })], 'boot-2')
  t.deepEqual(await ran.queued(), [{ kind: 'start', actor: 'host-watch' }])

  const stopped = await running()
  await apps.recordDesiredState(stopped.db, stopped.app.id, 'stopped')
  await apps.recordStopped(stopped.db, stopped.app.id, { code: 0, oom: false, at: new Date() })
  await stopped.look([container(stopped.app, { ...crashed, exitCode: 0 })], 'boot-2')
  t.deepEqual(await stopped.queued(), [])
})

test('a container that runs although it was stopped is ended, unless an operation is in progress', async t => {
  const { db, app, look } = await running()
  await apps.recordDesiredState(db, app.id, 'stopped')
  await apps.recordStopped(db, app.id, { code: 0, oom: false, at: new Date() })
  const stopped: string[] = []
  await look([container(app)], 'boot-1', stopped)
  t.deepEqual(stopped, [`stop berth-${app.id}-1`])
  await operations.enqueueOperation(db, { targetId: app.id, kind: 'start', ownerId: app.owner_id, actor: app.owner_id })
  await look([container(app)], 'boot-1', stopped)
  t.is(stopped.length, 1)
})

test('a container that the engine lost is created again', async t => {
  const { look, queued } = await running()
  await look([])
  t.deepEqual(await queued(), [{ kind: 'start', actor: 'host-watch' }])
})

test('an application that the engine cannot inspect delays no others', async t => {
  const { db, app, hostId } = await running()
  const make = rows(db)
  const { app: other } = await make.app(app.owner_id, { subdomain: null })
  await db('apps').where({ id: other.id }).update({ host_id: hostId })
  await db('operations').where({ target_id: other.id }).update({ state: 'success' })
  const startedAt = new Date()
  await apps.recordStarted(db, other.id, { release: 1, containerId: 'c2', hostPort: null, bootId: 'boot-1', startedAt })
  const ended = [app, other].map(one => container(one, { ...crashed, exitCode: 1 }))
  // Whichever of the two comes first, the other one's end is recorded.
  for (const mute of [app, other]) {
    const engine = engineWith(hostId, ended)
    const inspect = engine.inspect.bind(engine)
    engine.inspect = async name => {
      if (name.includes(mute.id)) throw new Error('the engine does not tell')
      return inspect(name)
    }
    const options = { db, hostId, boot: inBoot('boot-1'), log, engine, locks: appLocks() }
    await reconcile({ ...options, volumes: { list: async () => [] } as never })
    t.is((await apps.loadApp(db, mute === app ? other.id : app.id))!.status, 'exited')
    await db('apps').whereIn('id', [app.id, other.id]).update({ status: 'running' })
  }
})

test('a round ends after failures for three applications in a row: the engine is down for all of them', async t => {
  const { db, app, hostId } = await running()
  const make = rows(db)
  const all = [app]
  for (let n = 0; n < 4; n++) all.push((await make.app(app.owner_id, { subdomain: null })).app)
  const ids = all.map(({ id }) => id)
  await db('apps').whereIn('id', ids).update({ host_id: hostId, status: 'running', boot_id: 'boot-1', release: 1 })
  await db('operations').whereIn('target_id', ids).update({ state: 'success' })
  const engine = engineWith(
    hostId,
    all.map(one => container(one, { ...crashed, exitCode: 1 })),
  )
  let asked = 0
  engine.inspect = async () => {
    asked++
    throw new Error('the engine does not tell')
  }
  const options = { db, hostId, boot: inBoot('boot-1'), log, engine, locks: appLocks() }
  const round = reconcile({ ...options, volumes: { list: async () => [] } as never })
  await t.throwsAsync(round, { message: /several applications in a row/ })
  t.is(asked, 3)
})

test('a start during a comparison is not undone', async t => {
  const { db, app, hostId, row } = await running()
  const old = container(app, { ...crashed, exitCode: 1 })
  const engine = engineWith(hostId, [old])
  const inspect = engine.inspect.bind(engine)
  engine.inspect = async name => {
    const started = { release: 1, containerId: 'c1', hostPort: 4001, bootId: 'boot-1', startedAt: new Date() }
    await apps.recordStarted(db, app.id, started)
    return inspect(name)
  }
  await reconcile({
    db,
    locks: appLocks(),
    hostId,
    boot: inBoot('boot-1'),
    log,
    engine,
    volumes: { list: async () => [] } as never,
  })
  t.like(await row(), { status: 'running', host_port: 4001 })
})

test('a replaced version is removed once it is not needed, and never while a deploy runs', async t => {
  const { db, app, look } = await running()
  const removed: string[] = []
  await apps.recordStarted(db, app.id, {
    ...{ release: 2, containerId: 'c2', hostPort: 4001, bootId: 'boot-1' },
    startedAt: new Date(),
  })
  const old = container(app)
  const serving = container(app, {
    ...{ id: 'c2', name: `berth-${app.id}-2`, hostPort: 4001 },
    labels: { [labels.app]: app.id, [labels.release]: '2' },
  })
  await look([old, serving], 'boot-1', removed)
  t.deepEqual(removed, [], 'it may still answer its last requests')
  await db('apps')
    .where({ id: app.id })
    .update({ started_at: new Date(Date.now() - 11 * 60_000) })
  const { id } = await operations.enqueueOperation(db, {
    ...{ targetId: app.id, kind: 'deploy', ownerId: app.owner_id, actor: app.owner_id },
  })
  await db('operations').where({ id }).update({ state: 'running' })
  await look([old, serving], 'boot-1', removed)
  t.deepEqual(removed, [], 'a deploy may go back to it')
  await db('operations').where({ id }).update({ state: 'error' })
  await look([old, serving], 'boot-1', removed)
  t.deepEqual(removed, [`berth-${app.id}-1`])
})

test('a build is removed, running or ended, once no operation needs its release; one in use stays', async t => {
  const { db, app, look } = await running()
  const removed: string[] = []
  const { id: operationId } = await operations.enqueueOperation(db, {
    ...{ targetId: app.id, kind: 'deploy', ownerId: app.owner_id, actor: app.owner_id },
  })
  await openDeployment(db, {
    ...{ appId: app.id, operationId, release: 2, revision: '', segmentId: null, source: 'upload' },
  })
  const build = (release: string, changes: Partial<ContainerState> = {}) =>
    container(app, {
      ...{ id: `build-${release}`, name: `berth-${app.id}-${release}-build`, hostPort: null, ...changes },
      labels: { [labels.app]: app.id, [labels.release]: release, [labels.role]: 'build' },
    })
  const present = [container(app), build('2'), build('7', crashed)]
  for (const state of ['queued', 'running']) {
    await db('operations').where({ id: operationId }).update({ state })
    await look(present, 'boot-1', removed)
    t.deepEqual(removed.splice(0), ['build-7'], `${state}: that of another release is nobody's`)
  }
  await db('operations').where({ id: operationId }).update({ state: 'cancelled' })
  await look(present, 'boot-1', removed)
  t.deepEqual(removed, ['build-2', 'build-7'], 'by its own id: a new build may have its name by now')
})

test('a host is checked after every event, and waiting for the next leaks nothing', async t => {
  const { db } = await database
  const ending = new AbortController()
  let looks = 0
  const engine = engineWith('watched', [])
  const list = engine.list.bind(engine)
  engine.list = async filter => {
    looks++
    return list(filter)
  }
  await engine.ensureNetwork({ name: 'net', labels: {} })
  const own = { [labels.host]: 'watched', [labels.role]: 'build' }
  await engine.create({ name: 'one', labels: own, network: 'net', command: [], memoryMb: 1, publish: null } as never)
  /** Something happens to a container of the host. */
  const happen = async () => {
    await engine.start('one')
    await engine.stop('one', 1)
  }
  const volumes = { list: async () => [] } as never
  const options = {
    db,
    engine,
    volumes,
    locks: appLocks(),
    hostId: 'watched',
    boot: inBoot('boot-1'),
    log,
    everySeconds: 60,
  }
  const watched = watchHost(options, ending.signal)
  for (let seen = 1; seen <= 15; seen++) {
    await comesTrue(() => looks >= seen)
    await happen()
  }
  t.true(getEventListeners(ending.signal, 'abort').length <= 2)
  ending.abort()
  await watched
  t.true(looks >= 15)
})

test('a deploy that ends during a comparison is not replaced by the version that the comparison has seen', async t => {
  const { db, app, hostId, row } = await running()
  const old = container(app, { hostPort: 4001 }) // recorded with another port
  const engine = engineWith(hostId, [old])
  const inspect = engine.inspect.bind(engine)
  engine.inspect = async name => {
    const state = await inspect(name)
    const startedAt = new Date()
    await apps.recordStarted(db, app.id, { release: 2, containerId: 'c2', hostPort: 4002, bootId: 'boot-1', startedAt })
    return state
  }
  const volumes = { list: async () => [] } as never
  await reconcile({ locks: appLocks(), db, hostId, boot: inBoot('boot-1'), log, engine, volumes })
  t.like(await row(), { release: 2, container_id: 'c2', host_port: 4002 })
  engine.inspect = inspect
  await apps.recordStarted(db, app.id, {
    release: 1,
    containerId: 'c1',
    hostPort: 4000,
    bootId: 'boot-1',
    startedAt: old.startedAt!,
  })
  await reconcile({ locks: appLocks(), db, hostId, boot: inBoot('boot-1'), log, engine, volumes })
  t.like(await row(), { release: 1, container_id: 'c1', host_port: 4001 }, 'without one it is recorded')
})

test('a start while the watch waits to stop a program is not undone', async t => {
  const { db, app, hostId } = await running()
  await apps.recordDesiredState(db, app.id, 'stopped')
  await apps.recordStopped(db, app.id, { code: 0, oom: false, at: new Date() })
  const ended: string[] = []
  const engine = engineWith(hostId, [container(app)], ended)
  let asked = 0
  const own = appLocks()
  const locks = Object.assign(
    <T>(id: string, work: () => Promise<T>) => {
      asked++
      return own(id, work)
    },
    { busy: own.busy },
  )
  const look = () =>
    reconcile({ db, locks, hostId, boot: inBoot('boot-1'), log, engine, volumes: { list: async () => [] } as never })
  let over = () => {}
  const held = own(
    app.id,
    () =>
      new Promise<void>(end => {
        over = end
      }),
  )
  const looking = look()
  await comesTrue(() => asked > 0)
  await apps.recordDesiredState(db, app.id, 'running')
  over()
  await Promise.all([held, looking])
  t.deepEqual(ended, [])
})

test('containers left paused by a dead process are unpaused, and those frozen for a snapshot are not', async t => {
  const { db, app, hostId } = await running()
  const woken: string[] = []
  const paused = container(app, { status: 'paused' })
  const engine = engineWith(hostId, [paused])
  const unpause = engine.unpause.bind(engine)
  engine.unpause = async name => {
    woken.push(name)
    await unpause(name)
  }
  const locks = appLocks()
  const volumes = { list: async () => [] } as never
  const look = () => reconcile({ db, locks, hostId, boot: inBoot('boot-1'), log, engine, volumes })
  let over = () => {}
  const held = locks(
    app.id,
    () =>
      new Promise<void>(end => {
        over = end
      }),
  )
  await look()
  t.deepEqual(woken, [])
  over()
  await held
  await look()
  t.deepEqual(woken, [paused.name])
})

test('containers paused by hand are unpaused, builds too; one that the engine cannot unpause delays no others', async t => {
  const { db, app, hostId } = await running()
  const refused = container({ id: 'f'.repeat(24) }, { id: 'c2', status: 'paused' })
  const build = container(app, { id: 'c3', name: 'a-build', status: 'paused' })
  build.labels = { ...build.labels, [labels.role]: 'build' }
  const paused = container(app, { status: 'paused' })
  const engine = engineWith(hostId, [refused, build, paused])
  const unpause = engine.unpause.bind(engine)
  engine.unpause = async name => {
    if (name === refused.name) throw new Error('the freezer is stuck')
    await unpause(name)
  }
  const volumes = { list: async () => [] } as never
  await reconcile({ db, locks: appLocks(), hostId, boot: inBoot('boot-1'), log, engine, volumes })
  const statusOf = async ({ name }: ContainerState) => (await engine.inspect(name))?.status
  t.is(await statusOf(paused), 'running')
  t.not(await statusOf(build), 'paused')
})

test('an application that cannot be brought back is retried after a delay that doubles, up to an hour', async t => {
  const { db, app, look, later, row } = await running()
  const starts = async () => (await db('operations').where({ target_id: app.id, kind: 'start' })).length
  const fails = () => db('operations').where({ target_id: app.id, kind: 'start' }).update({ state: 'error' })
  const delays: number[] = []
  for (let tries = 1; tries <= 5; tries++) {
    let waited = 0
    for (; (await starts()) < tries; waited += 5) {
      await look([])
      if ((await starts()) < tries) later(5)
    }
    await fails()
    delays.push(waited - 5)
  }
  t.deepEqual(delays, [0, 5, 10, 20, 40])
  t.is(bringBackDelay.maxSeconds, 3600)
  // It is started by hand, and lost again.
  await look([container(app, { hostPort: 4000 })])
  t.like(await row(), { status: 'running' })
  await look([])
  t.is(await starts(), 6)
})

test('an exit and its automatic restart are one commit: an interruption loses neither', async t => {
  const { db, app, look, row, queued } = await running({ autorestart: true })
  const stop = `refuse_${app.id}`
  await db.raw(`create function ${stop}() returns trigger language plpgsql as $$ begin
    if new.target_id = '${app.id}' then raise exception 'cut'; end if; return new; end $$`)
  await db.raw(`create trigger ${stop} before insert on operations for each row execute function ${stop}()`)
  const ended = container(app, { ...crashed, exitCode: 1 })
  await look([ended])
  t.like(await row(), { status: 'running', last_autorestart_at: null })
  await db.raw(`drop trigger ${stop} on operations`)
  await look([ended])
  t.like(await row(), { status: 'exited', exit_code: 1 })
  t.deepEqual(await queued(), [{ kind: 'start', actor: 'host-watch' }])
})
