import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import { recordActivities } from '../../../activities/records.ts'
import { restartUnhealthy } from '../../../db/apps/app-health.ts'
import * as apps from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { enqueueOperation } from '../../../db/operations/operations.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'
import { healthChecks } from '../../../policy/hosts/health-checks.ts'
import { HealthChecks, type HealthChecksOptions } from '../../../workers/host/health-checks.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { startOrigin } from '../../kit/servers/origin.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

/** A host of its own, whose checks are due whenever they are asked for. */
async function host(options: Partial<HealthChecksOptions> = {}) {
  const { db } = await database
  const make = rows(db)
  const hostId = `h-${Math.random().toString(36).slice(2)}`
  await make.host(hostId, { memoryMb: 1_000_000 })
  let now = 0
  const checks = new HealthChecks({ db, hostId, appsDomain: 'apps.localhost', log, now: () => now, ...options })
  const see = async () => checks.see(await apps.listAppsOfHost(db, hostId))
  /** Begins the next check of each application. */
  const begin = async () => {
    await see()
    now += healthChecks.everySeconds * 1000
    await checks.round()
  }
  /** Runs the next check of each application. */
  const check = async () => {
    await begin()
    await checks.settled()
  }
  const start = (id: string, hostPort: number, containerId = `c-${id}`, seconds = 120) =>
    apps.recordStarted(db, id, {
      ...{ release: 1, containerId, hostPort, hostAddress: '127.0.0.1', bootId: 'boot-1' },
      startedAt: new Date(Date.now() - seconds * 1000),
    })
  /** An application that has run for 2 minutes, and listens at this port. */
  const app = async (ownerId: string, hostPort: number, changes: Partial<AppConfigFile> = {}) => {
    const config = { health: '/ready', ...changes }
    const { app } = await make.app(ownerId, config, { plans: plansOfMemory(1_000_000) })
    await db('apps').where({ id: app.id }).update({ host_id: hostId })
    await db('operations').where({ target_id: app.id }).update({ state: 'success' })
    await start(app.id, hostPort)
    return app
  }
  const later = (seconds: number) => {
    now += seconds * 1000
  }
  return { db, hostId, checks, see, begin, check, later, start, makeApp: app, user: make.user }
}

/** One application of a host, whose program answers with a status. */
async function one(t: ExecutionContext, changes: Partial<AppConfigFile> = {}, options?: Partial<HealthChecksOptions>) {
  const program = {
    status: 200,
    requests: 0,
    before: async () => {},
  }
  const origin = await startOrigin(async (_: IncomingMessage, answer: ServerResponse) => {
    program.requests++
    await program.before()
    answer.writeHead(program.status).end()
  })
  t.teardown(origin.stop)
  const on = await host(options)
  const user = await on.user()
  const app = await on.makeApp(user.id, origin.port, changes)
  const row = async () => (await apps.loadApp(on.db, app.id))!
  const health = async () => {
    const { since: _, ...rest } = (await row()).health ?? { since: '' }
    return rest
  }
  const queued = () =>
    on.db('operations').where({ target_id: app.id, state: 'queued' }).select('kind', 'actor', 'input')
  const failing = async (times = 3) => {
    program.status = 503
    for (let n = 0; n < times; n++) await on.check()
  }
  return { ...on, app, port: origin.port, program, row, health, queued, failing }
}

const healthy = { status: 'healthy', reason: null }
const unhealthy = { status: 'unhealthy', reason: '/ready answered 503' }

test('three failures in a row make an application unhealthy, one success makes it healthy, and only changes are written', async t => {
  const { db, app, program, check, failing, health, row } = await one(t)
  t.deepEqual(await health(), {}, 'not known before the first check')
  await check()
  t.deepEqual(await health(), healthy)
  const { since } = (await row()).health!
  t.true(Math.abs(Date.parse(since) - Date.now()) < 60_000, since)
  const version = async () => (await db('apps').where({ id: app.id }).first(db.raw('xmin::text'))).xmin
  const written = await version()
  await failing(2)
  program.status = 200
  await check()
  await failing(2)
  t.is(await version(), written)
  await failing(1)
  t.deepEqual(await health(), unhealthy)
  const changed = await version()
  await failing(2)
  t.is(await version(), changed)
  program.status = 200
  await check()
  t.deepEqual(await health(), healthy)
})

test('without a path, and while it does not run, an application gets no request, and its host reads nothing', async t => {
  const untouched = new Proxy((() => {}) as unknown as Db, {
    apply: () => t.fail('a query'),
    get: () => t.fail('a query'),
  })
  const { program, check, row, checks } = await one(t, { health: null })
  await check()
  t.is(program.requests, 0)
  t.is((await row()).health, null)
  const still = new HealthChecks({ db: untouched, hostId: 'h', appsDomain: 'x', log })
  still.see([
    { id: 'a', status: 'running', health_path: null },
    { id: 'b', status: 'exited', health_path: '/ready' },
  ])
  await still.round()

  const stopped = await one(t)
  await stopped.see()
  await apps.recordDesiredState(stopped.db, stopped.app.id, 'stopped')
  await stopped.check()
  await apps.recordStopped(stopped.db, stopped.app.id, { code: 0, oom: false, at: new Date() })
  await stopped.check()
  t.is(stopped.program.requests, 0)
  await checks.end()
})

test('a new run begins without a health and without failures; what a check of the former one gave is not written', async t => {
  const { app, port, program, start, check, failing, health } = await one(t)
  await failing()
  t.deepEqual(await health(), unhealthy)
  await start(app.id, port, 'next')
  t.deepEqual(await health(), {})
  await failing(2)
  t.deepEqual(await health(), {})
  program.before = () => start(app.id, port, 'after that')
  await check()
  t.deepEqual(await health(), {})
})

test('an unhealthy program with AUTORESTART is restarted once an hour, with the reason, and none without it', async t => {
  const { db, app, failing, queued, row } = await one(t, { autorestart: true })
  await failing()
  const { container_id: containerId, started_at: startedAt, health_restart: restart } = await row()
  const before = { restart: null, lastRestart: null }
  const input = { reason: unhealthy.reason, containerId, startedAt: startedAt!.toISOString(), before }
  t.deepEqual(await queued(), [{ kind: 'restart', actor: 'health-check', input }])
  t.is(restart?.reason, unhealthy.reason)
  await db('operations').where({ target_id: app.id }).update({ state: 'success' })
  await failing(2)
  t.deepEqual(await queued(), [], 'the hour is not over')
  await db('apps')
    .where({ id: app.id })
    .update({ last_autorestart_at: new Date(Date.now() - 3_601_000) })
  await failing(1)
  t.is((await queued()).length, 1)

  const plain = await one(t)
  await plain.failing(5)
  t.deepEqual(await plain.queued(), [])
})

test('a program that has run for less than a minute, and one of a draining host, is not restarted', async t => {
  const young = await one(t, { autorestart: true })
  await young.start(young.app.id, young.port, 'young', 30)
  await young.failing(4)
  t.deepEqual([await young.health(), await young.queued()], [unhealthy, []])
  const { db, hostId, failing, queued, health } = await one(t, { autorestart: true })
  await db('hosts').where({ id: hostId }).update({ draining: true })
  await failing(4)
  t.deepEqual([await health(), await queued()], [unhealthy, []])
})

test('while an operation of the application waits or runs, builds too, it is not restarted for its health', async t => {
  for (const kind of ['deploy', 'snapshot', 'stop', 'restart'] as const) {
    const { db, app, failing, queued } = await one(t, { autorestart: true })
    const operation = { targetId: app.id, kind, ownerId: app.owner_id, actor: app.owner_id }
    const { id } = await enqueueOperation(db, operation)
    await failing(4)
    t.deepEqual(
      (await queued()).map(row => row.kind),
      [kind],
    )
    await db('operations').where({ id }).update({ state: 'success' })
    await failing(3)
    t.deepEqual(
      (await queued()).map(row => row.kind),
      ['restart'],
      kind,
    )
  }
})

/** The lane of the application of a scene comes to its next operation: what it begins, and the state of its restart. */
async function laneTurn({ db, app }: Awaited<ReturnType<typeof one>>) {
  const claim = () => ({ run: 'r', step: 1 })
  const records = recordActivities({ db, plans: defaultPlans, appsDomain: 'x', diskMbPer256Mb: 10, claim })
  const claimed = await records.claimNext(app.id, { underWay: [] })
  const { state } = await db('operations').where({ target_id: app.id, kind: 'restart' }).orderBy('seq', 'desc').first()
  return [claimed?.kind ?? null, state]
}

test('a restart whose run is over when its lane comes to it is cancelled', async t => {
  const goesOn = await one(t, { autorestart: true })
  await goesOn.failing()
  t.deepEqual(await laneTurn(goesOn), ['restart', 'running'])
  await apps.recordStatus(goesOn.db, goesOn.app.id, 'restarting')
  await goesOn.db('operations').where({ target_id: goesOn.app.id, kind: 'restart' }).update({ step: 'stopping' })
  t.deepEqual(await laneTurn(goesOn), ['restart', 'running'], 'one that has begun goes on')

  const stopped = await one(t, { autorestart: true })
  await stopped.failing()
  await apps.recordDesiredState(stopped.db, stopped.app.id, 'stopped')
  t.deepEqual(await laneTurn(stopped), [null, 'cancelled'])

  const replaced = await one(t, { autorestart: true })
  await replaced.failing()
  await replaced.start(replaced.app.id, replaced.port, 'another')
  t.deepEqual(await laneTurn(replaced), [null, 'cancelled'])
})

test('a program that works again before its restart begins is not restarted, nor one whose configuration says so by then', async t => {
  const recovered = await one(t, { autorestart: true })
  await recovered.failing()
  recovered.program.status = 200
  await recovered.check()
  t.deepEqual(await recovered.health(), healthy)
  t.deepEqual(await laneTurn(recovered), [null, 'cancelled'])

  for (const change of [{ autorestart: false }, { health_path: null }, { health_path: '/other' }]) {
    const changed = await one(t, { autorestart: true })
    await changed.failing()
    await changed.db('apps').where({ id: changed.app.id }).update(change)
    t.deepEqual(await laneTurn(changed), [null, 'cancelled'], JSON.stringify(change))
  }

  const works = await one(t, { autorestart: true })
  await works.failing(2)
  const { container_id, started_at, health_path } = await works.row()
  const run = { id: works.app.id, container_id, started_at: started_at!, health_path: health_path! }
  t.false(await restartUnhealthy(works.db, run, 'it did not work'))
  t.deepEqual(await works.queued(), [])
})

test('a restart that is cancelled before it begins is shown nowhere, and spends no hour', async t => {
  const scene = await one(t, { autorestart: true })
  const { db, app, program, check, failing, row, queued } = scene
  const shown = async () => {
    const { last_autorestart_at: at, health_restart: restart } = await row()
    return { at, restart }
  }
  const recover = async () => {
    program.status = 200
    await check()
  }
  await failing()
  await recover()
  await laneTurn(scene)
  t.deepEqual(await shown(), { at: null, restart: null })
  await failing()
  t.is((await queued()).length, 1, 'the hour is not spent')
  await db('operations').where({ target_id: app.id }).update({ state: 'success' })

  const earlier = {
    at: new Date(Date.now() - 3_601_000),
    restart: { at: '2030-01-01T00:00:00.000Z', reason: 'earlier' },
  }
  const write = ({ at, restart }: typeof earlier) =>
    db('apps')
      .where({ id: app.id })
      .update({ last_autorestart_at: at, health_restart: JSON.stringify(restart) })
  await write(earlier)
  await failing(1)
  t.notDeepEqual(await shown(), earlier)
  await recover()
  await laneTurn(scene)
  t.deepEqual(await shown(), earlier)

  await failing()
  const later = { at: new Date(), restart: { at: '2030-01-02T00:00:00.000Z', reason: 'later' } }
  await write(later)
  await recover()
  t.deepEqual(await laneTurn(scene), [null, 'cancelled'])
  t.deepEqual(await shown(), later, 'what came after it stays')
})

test('failures in a row begin anew once an operation was busy with the application, and with another path', async t => {
  const { db, app, failing, health } = await one(t)
  await failing(2)
  const { id } = await enqueueOperation(db, {
    ...{ targetId: app.id, kind: 'restart', ownerId: app.owner_id, actor: app.owner_id },
  })
  await failing(4)
  await db('operations').where({ id }).update({ state: 'success' })
  await failing(2)
  t.deepEqual(await health(), {})
  await db('apps').where({ id: app.id }).update({ health_path: '/other' })
  await failing(2)
  t.deepEqual(await health(), {})
  await failing(1)
  t.deepEqual(await health(), { status: 'unhealthy', reason: '/other answered 503' })
})

test('a host process that was replaced records nothing and restarts nothing', async t => {
  const held = async () => Promise.reject(new Error('another process is this host now'))
  const { failing, health, queued } = await one(t, { autorestart: true }, { held })
  await failing(4)
  t.deepEqual([await health(), await queued()], [{}, []])
})

/** A server that takes connections and says nothing. */
async function silent(t: ExecutionContext) {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .on('close', () => sockets.delete(socket))
      .resume()
  }).listen(0, '0.0.0.0')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

/** Programs of an account that never answer, each at an address of its own as on a real host, for ports are unique on an address. */
async function hanging(on: Awaited<ReturnType<typeof host>>, ownerId: string, port: number, count: number) {
  for (let n = 0; n < count; n++) {
    const app = await on.makeApp(ownerId, 1 + n)
    await on
      .db('apps')
      .where({ id: app.id })
      .update({ host_port: port, host_address: `127.0.0.${10 + n}` })
  }
}

test('a check that had to wait finds its program where it runs by then', async t => {
  const on = await host({ withinMs: 3_600_000 })
  const { port, sockets } = await silent(t)
  const ana = await on.user()
  await hanging(on, ana.id, port, healthChecks.perAccount)
  await on.begin()
  await comesTrue(() => sockets.size === healthChecks.perAccount)
  const seen: string[] = []
  const answering = async (name: string) => {
    const origin = await startOrigin((_, answer) => {
      seen.push(name)
      answer.end()
    })
    t.teardown(origin.stop)
    return origin.port
  }
  const app = await on.makeApp(ana.id, await answering('former'))
  await on.begin()
  await on.start(app.id, await answering('present'), 'next')
  on.later(2)
  t.deepEqual(seen, [])
  for (const socket of sockets) socket.destroy()
  await on.checks.settled()
  t.deepEqual(seen, ['present'])
  t.is((await apps.loadApp(on.db, app.id))!.health?.status, 'healthy')
})

test('an account whose many programs never answer has 16 open checks, and delays those of no other account', async t => {
  const on = await host({ withinMs: 3_600_000 })
  const { port, sockets } = await silent(t)
  const [noisy, quiet] = [await on.user(), await on.user()]
  await hanging(on, noisy.id, port, healthChecks.perAccount + 8)
  const origin = await startOrigin((_, answer) => answer.end())
  t.teardown(origin.stop)
  const app = await on.makeApp(quiet.id, origin.port)
  const health = async () => (await apps.loadApp(on.db, app.id))!.health?.status
  for (const expected of ['first', 'second']) {
    await on.db('apps').where({ id: app.id }).update({ health: null })
    await on.begin()
    await comesTrue(async () => (await health()) === 'healthy')
    await comesTrue(() => sockets.size >= healthChecks.perAccount)
    t.is(sockets.size, healthChecks.perAccount, expected)
  }
  await on.checks.end()
  await comesTrue(() => sockets.size === 0)
})

test('an application has one open check, also when its host reads that it stopped and runs again', async t => {
  const on = await host({ withinMs: 3_600_000 })
  const { port, sockets } = await silent(t)
  const { id: owner } = await on.user()
  await hanging(on, owner, port, 1)
  await on.begin()
  await comesTrue(() => sockets.size === 1)
  on.checks.see([])
  const origin = await startOrigin((_, answer) => answer.end())
  t.teardown(origin.stop)
  const other = await on.makeApp(owner, origin.port)
  await on.begin()
  await on.begin()
  await comesTrue(async () => (await apps.loadApp(on.db, other.id))!.health !== null)
  t.is(sockets.size, 1)
  on.checks.see([])
  await on.checks.end()
})

test('after a pause of 25 s the checks of a thousand applications are spread as before', async t => {
  const { db } = await database
  const hostId = 'h-of-a-thousand'
  let now = 0
  const checks = new HealthChecks({ db, hostId, appsDomain: 'x', log, now: () => now })
  const ids = Array.from({ length: 1000 }, (_, n) => `app-${n}`)
  checks.see(ids.map(id => ({ id, status: 'running', health_path: '/ready' })))
  let due: string[] = []
  const note = ({ bindings = [] }: { bindings?: unknown[] }) => {
    if (bindings.includes(hostId)) due = bindings.find(Array.isArray) ?? []
  }
  db.on('query', note)
  t.teardown(() => db.removeListener('query', note))
  const parts = 20
  /** Which applications are due in each of the parts of an interval from now on. */
  const interval = async () => {
    const all: string[] = []
    for (let part = 0; part < parts; part++) {
      due = []
      now += (healthChecks.everySeconds * 1000) / parts
      await checks.round()
      all.push([...due].sort().join())
    }
    return all
  }
  const before = await interval()
  t.deepEqual(await interval(), before)
  now += 25_000
  await checks.round()
  t.is(due.length, 1000, 'each has missed one')
  now += 5000 // the pause and this are whole intervals
  await checks.round()
  t.deepEqual(await interval(), before)
})
