import test from 'ava'
import { pino } from 'pino'
import { labels } from '../../../activities/containers/port.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import { listMetrics } from '../../../db/apps/app-metrics.ts'
import { recordStarted } from '../../../db/apps/apps.ts'
import { chores, tidyRows } from '../../../db/housekeeping.ts'
import { retentionSettings } from '../../../policy/retention.ts'
import { HostMetrics } from '../../../workers/host/host-metrics.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const mb = 1024 * 1024
const minute = 60_000
/** Two whole intervals ago. */
const begin = Math.floor(Date.now() / 300_000) * 300_000 - 600_000

/** Applications of these sizes that run on a host of their own, whose figures the test sets. */
async function host(...sizes: number[]) {
  const { db } = await database
  const make = rows(db)
  const hostId = `h-${Math.random().toString(36).slice(2)}`
  const user = await make.user('enterprise-32')
  await make.host(hostId, { memoryMb: 1_000_000_000 })
  const startedAt = new Date(begin - 3600_000)
  const engine = new FakeContainerHost()
  const made = await Promise.all(
    sizes.map(async memoryMb => {
      const { app } = await make.app(user.id, { memoryMb }, { plans: plansOfMemory(1_000_000) })
      await db('apps').where({ id: app.id }).update({ host_id: hostId })
      await recordStarted(db, app.id, { release: 1, containerId: 'c', hostPort: null, bootId: 'b', startedAt })
      const own = { [labels.host]: hostId, [labels.app]: app.id, [labels.release]: '1', [labels.role]: 'app' }
      engine.put({
        ...{ id: `c-${app.id}`, name: app.id, labels: own, status: 'running', running: true, startedAt },
        ...{ exitCode: null, oom: false, finishedAt: null, hostPort: null, hostAddress: null, address: null },
      })
      return app
    }),
  )
  const open = (own = db) => new HostMetrics({ db: own, engine, hostId, log: pino({ level: 'silent' }) })
  const mails = () => db('mails').where({ user_id: user.id }).orderBy('created_at')
  return { db, apps: made, engine, figures: engine.figures, open, mails, user }
}

test('each interval has one point; small applications have none', async t => {
  const { db, apps, figures, open } = await host(512, 256)
  const [large, small] = apps.map(app => app.id) as [string, string]
  const metrics = open()
  for (let n = 0; n < 20; n++) {
    figures.set(large, { cpuPercent: n, memoryBytes: 100 * mb, networkIn: n * 10, networkOut: n })
    await metrics.round(begin + n * 15_000)
  }
  t.deepEqual(await listMetrics(db, large), [], 'the interval is not over')
  await metrics.round(begin + 5 * minute)
  await metrics.round(begin + 6 * minute)
  t.deepEqual(await listMetrics(db, large), [
    { appId: large, at: new Date(begin), cpu: 9.5, ram: 100, netIn: 190, netOut: 19 },
  ])
  await metrics.round(begin + 10 * minute)
  const points = await listMetrics(db, large)
  t.deepEqual(
    points.map(({ at }) => at.getTime()),
    [begin + 5 * minute, begin],
    'newest first',
  )
  t.deepEqual(await listMetrics(db, small), [])
})

test('an application that has ended gets its last point, and one with failed readings the samples that succeeded', async t => {
  const { db, apps, engine, figures, open } = await host(512, 512)
  const [ended, failing] = apps.map(app => app.id) as [string, string]
  const metrics = open()
  await metrics.round(begin)
  figures.set(failing, new Error('the engine hangs'))
  await engine.stop(ended, 1)
  await metrics.round(begin + minute)
  await metrics.round(begin + 5 * minute)
  t.is((await listMetrics(db, ended)).length, 1)
  t.is((await listMetrics(db, failing)).length, 1)
  await metrics.round(begin + 10 * minute)
  t.is((await listMetrics(db, ended)).length, 1)
})

test('a host that restarts in the middle of an interval writes it once', async t => {
  const { db, apps, figures, open } = await host(512)
  const [id] = apps.map(app => app.id) as [string]
  const before = open()
  figures.set(id, { cpuPercent: 50 })
  await before.round(begin)
  const after = open()
  figures.set(id, { cpuPercent: 10 })
  await after.round(begin + minute)
  await before.round(begin + 5 * minute)
  await after.round(begin + 5 * minute)
  const points = await listMetrics(db, id)
  t.is(points.length, 1)
  t.is(points[0]!.cpu, 50)
})

test('while Postgres is down points wait, and an application deleted meanwhile does not block others', async t => {
  const { db, apps, open } = await host(512, 512)
  const [deleted, stays] = apps.map(app => app.id) as [string, string]
  let away = false
  const refuse = () => {
    if (away) throw new Error('Connection terminated')
  }
  const shaky: typeof db = new Proxy(db, {
    get(target, name) {
      refuse()
      return Reflect.get(target, name)
    },
    apply(target, self, args) {
      refuse()
      return Reflect.apply(target, self, args)
    },
  })
  const metrics = open(shaky)
  await metrics.round(begin)
  away = true
  await t.throwsAsync(metrics.round(begin + 5 * minute), { message: 'Connection terminated' })
  away = false
  await removeApp(db, deleted)
  await metrics.round(begin + 6 * minute)
  t.is((await listMetrics(db, stays)).length, 1)
})

test('memory near the limit for three consecutive samples is reported to the owner, once a day for each application', async t => {
  const { db, apps, figures, open, mails, user } = await host(512, 256)
  const [large, small] = apps.map(app => app.id) as [string, string]
  const metrics = open()
  const look = async (...memoryMb: number[]) => {
    for (const used of memoryMb) {
      figures.set(small, { memoryBytes: used * mb })
      await metrics.round(begin)
    }
  }
  await look(240, 240, 100, 240, 240)
  t.deepEqual(await mails(), [], 'peaks are nobody’s business')
  await look(250)
  t.is((await mails()).length, 1)
  t.like((await mails())[0], {
    template: 'memory-high',
    user_id: user.id,
    fields: { app: 'shop', usedMb: 250, limitMb: 256, percent: 98 },
  })
  await look(250, 250, 250, 250, 100, 250, 250, 250)
  t.is((await mails()).length, 1)
  figures.set(large, { memoryBytes: 500 * mb })
  await look(10, 10, 10)
  t.is((await mails()).length, 2)
  await db('mails')
    .where({ user_id: user.id })
    .update({ created_at: new Date(Date.now() - 25 * 3600_000) })
  await look(10, 10, 10)
  t.is((await mails()).length, 3, 'a day later it is still so')
})

test('points older than a day, and mail older than a month, are swept', async t => {
  const { db, apps, user } = await host(512)
  const [id] = apps.map(app => app.id) as [string]
  const point = (hours: number) => ({
    ...{ app_id: id, cpu: 1, ram: 1, net_in: 1, net_out: 1 },
    at: new Date(Date.now() - hours * 3600_000),
  })
  await db('app_metrics').insert([point(23.9), point(24.1), point(48)])
  t.is((await listMetrics(db, id)).length, 1, 'not shown before they are swept either')
  const mail = (state: string, days: number) => ({
    ...{ id: `${state}-${days}`, user_id: user.id, template: 'memory-out', state },
    created_at: new Date(Date.now() - days * 86_400_000),
  })
  await db('mails').insert([mail('sent', 29), mail('sent', 31), mail('failed', 31), mail('queued', 31)])
  await tidyRows(db, chores(retentionSettings({})), chore => t.fail(chore))
  t.is((await db('app_metrics').where({ app_id: id })).length, 1)
  const left = await db('mails').where({ user_id: user.id }).pluck('id')
  t.deepEqual(left.sort(), ['queued-31', 'sent-29'])
})
