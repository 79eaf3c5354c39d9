import test from 'ava'
import { hostCall } from '../../../../api/hosts/host-call.ts'
import type { HostReading } from '../../../../api/hosts/host-reader.ts'
import { loadApp } from '../../../../db/apps/apps.ts'
import { masterKey, testApi } from '../../../kit/actors/api.ts'
import { zipOf } from '../../../kit/zips.ts'

const api = testApi()
const mb = 1024 * 1024

const reading = (change: Partial<HostReading> = {}): HostReading => ({
  state: {
    status: 'running',
    running: true,
    startedAt: new Date(Date.now() - 60_000).toISOString(),
    exitCode: null,
    oom: false,
  },
  stats: {
    cpuPercent: 0.5,
    memoryBytes: 120.4 * mb,
    memoryLimitBytes: 512 * mb,
    networkIn: 12.3 * 1024,
    networkOut: 4.5 * 1024,
    blockRead: 0,
    blockWrite: 0,
  },
  storageBytes: 2.7 * mb,
  ...change,
})

const stopped = reading({
  state: { status: 'exited', running: false, startedAt: null, exitCode: 137, oom: true },
  stats: null,
})

test('a running application is shown in texts and in numbers', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 512 })
  api().hosts.readings.set(app.id, reading())
  const { uptime, ...texts } = (await api().as(ana).get(`/v2/apps/${app.id}/status`)).body.response
  t.deepEqual(texts, {
    cpu: '0.50%',
    ram: '120.4/512MB',
    status: 'running',
    running: true,
    storage: '2.7MB',
    network: { total: '12.3KB ↑ 4.5KB ↓', now: '0.0KB ↑ 0.0KB ↓' },
    health: null,
  })
  t.true(Number.isInteger(uptime) && uptime >= 60_000 && uptime < 90_000)
  const raw = (await api().as(ana).get(`/v2/apps/${app.id}/status?rawData=true`)).body.response
  t.deepEqual(
    { ...raw, uptime: 0 },
    {
      cpu: 0.5,
      ram: 120.4,
      status: 'running',
      running: true,
      storage: Math.round(2.7 * mb),
      network: { total: [Math.round(12.3 * 1024), 4608], now: [0, 0] },
      uptime: 0,
      health: null,
    },
  )
  t.is((await api().as(ana).get(`/v2/apps/${app.id}/status?rawData=maybe`)).body.code, 'INVALID_PARAMETERS')
})

test('an application with HEALTH shows its health, unknown until it is decided and while it does not run', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 512, subdomain: `ready-${ana.id}`, health: '/ready' })
  api().hosts.readings.set(app.id, reading())
  const healths = async () => {
    const views = [`/v2/apps/${app.id}`, `/v2/apps/${app.id}/status`, `/v2/apps/${app.id}/status?rawData=true`]
    const answers = await Promise.all(views.map(view => api().as(ana).get(view)))
    return answers.map(({ body }) => body.response.health)
  }
  const change = (values: object) => api().db('apps').where({ id: app.id }).update(values)
  const unknown = { path: '/ready', status: 'unknown', since: null, reason: null, restarted: null }
  t.deepEqual(await healths(), [unknown, unknown, unknown])
  const health = { status: 'unhealthy', since: '2030-01-01T00:00:00.000Z', reason: '/ready answered 503' }
  const restarted = { at: '2029-12-31T00:00:00.000Z', reason: '/ready gave no answer within 5 s' }
  await change({ status: 'running', health, health_restart: restarted })
  const shown = { path: '/ready', ...health, restarted }
  t.deepEqual(await healths(), [shown, shown, shown])
  await change({ status: 'restarting' })
  t.deepEqual(await healths(), Array(3).fill({ ...unknown, restarted }))
})

test('a stopped application shows how it ended', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const at = new Date('2030-01-01T00:00:00.000Z')
  await api().db('apps').where({ id: app.id }).update({ status: 'exited', exit_code: 137, exit_oom: true, exit_at: at })
  api().hosts.readings.set(app.id, stopped)
  const { response } = (await api().as(ana).get(`/v2/apps/${app.id}/status`)).body
  t.is(response.status, 'exited')
  t.is(response.running, false)
  t.is(response.uptime, 0)
  t.deepEqual(response.exit, { code: 137, oom: true, at: at.toISOString() })
})

test('the state of an operation takes precedence over the engine’s', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  await api().db('apps').where({ id: app.id }).update({ status: 'restarting' })
  api().hosts.readings.set(app.id, stopped)
  t.is((await api().as(ana).get(`/v2/apps/${app.id}/status`)).body.response.status, 'restarting')
})

test('an application of a silent host is unreachable, with its last figures, never stopped', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  await api()
    .db('apps')
    .where({ id: app.id })
    .update({ status: 'running', started_at: new Date(), last_stats: JSON.stringify(reading()) })
  const { response } = (await api().as(ana).get(`/v2/apps/${app.id}/status`)).body
  t.is(response.status, 'unreachable')
  t.is(response.running, true)
  t.is(response.storage, '2.7MB')
})

test('the health of an application whose host does not answer is unknown', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 512, subdomain: `silent-${ana.id}`, health: '/ready' })
  const health = { status: 'healthy', since: '2030-01-01T00:00:00.000Z', reason: null }
  const restarted = { at: '2029-12-31T00:00:00.000Z', reason: '/ready answered 503' }
  const row = { status: 'running', started_at: new Date(), health, health_restart: restarted }
  await api().db('apps').where({ id: app.id }).update(row)
  const shown = async (path = 'status') => (await api().as(ana).get(`/v2/apps/${app.id}/${path}`)).body.response.health
  const unknown = { path: '/ready', status: 'unknown', since: null, reason: null, restarted }
  t.deepEqual(await shown(), unknown)
  t.deepEqual(await shown('status?rawData=true'), unknown)
  api().hosts.readings.set(app.id, reading())
  t.deepEqual(await shown(), { ...unknown, ...health })
})

test('an application that was lost with its host has ended, and refusals say what to do', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeApp(ana)
  await api().db('apps').where({ id }).update({ status: 'exited', lost_with: 'h1' })
  const as = api().as(ana)
  const { response } = (await as.get(`/v2/apps/${id}/status`)).body
  t.like(response, { status: 'exited', running: false, problem: { code: 'CLUSTER_UNAVAILABLE' } })
  t.like((await as.get(`/v2/apps/${id}/status?rawData=true`)).body.response, { problem: response.problem })
  t.deepEqual((await as.get(`/v2/apps/${id}`)).body.response.problem, response.problem)
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(zipOf({ 'index.js': '1' }))]), 'app.zip')
  for (const [path, body] of [['snapshots'], ['commit', form]] as const) {
    const { status, body: reported } = await as.post(`/v2/apps/${id}/${path}`, body)
    t.deepEqual([status, reported.code, reported.message], [503, 'CLUSTER_UNAVAILABLE', response.problem.message], path)
  }
  t.is((await api().db('operations').where({ target_id: id }).whereNot({ kind: 'create' })).length, 0)
  const app = (await loadApp(api().db, id))!
  const read = hostCall(api().db, masterKey)(app, { path: 'logs', deadlineMs: 1000 })
  await t.throwsAsync(read, { message: response.problem.message })
})

test('network.now is the difference of two readings', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  api().hosts.readings.set(app.id, reading())
  await api().as(ana).get(`/v2/apps/${app.id}/status`)
  await new Promise(resolve => setTimeout(resolve, 600))
  const more = reading()
  more.stats!.networkIn += 1024 * mb
  api().hosts.readings.set(app.id, more)
  const { response } = (await api().as(ana).get(`/v2/apps/${app.id}/status?rawData=true`)).body
  t.true(response.network.now[0] > 500 * mb, String(response.network.now))
  t.is(response.network.now[1], 0)
})

test('the status of all applications has totals and each application', async t => {
  const ana = await api().makeUser()
  t.is((await api().as(ana).get('/v2/apps/status')).body.code, 'APP_NOT_FOUND')
  const [one, two, three] = [await api().makeApp(ana), await api().makeApp(ana), await api().makeApp(ana)]
  api().hosts.readings.set(one.id, reading())
  api().hosts.readings.set(two.id, reading())
  api().hosts.readings.set(three.id, stopped)
  const { response } = (await api().as(ana).get('/v2/apps/status')).body
  t.is(response.cpu, '1.00%')
  t.is(response.ram, '240.8/768MB')
  t.is(response.running, true)
  t.deepEqual(response.network.total, '24.6KB ↑ 9.0KB ↓')
  t.deepEqual(response.applications, [
    { id: one.id, running: true, cpu: '0.50%', ram: '120.4/256MB' },
    { id: two.id, running: true, cpu: '0.50%', ram: '120.4/256MB' },
    { id: three.id, running: false },
  ])
  const raw = (await api().as(ana).get('/v2/apps/status?rawData=true')).body.response
  t.is(raw.cpu, 1)
  t.deepEqual(raw.applications[0], { id: one.id, running: true, cpu: 0.5, ram: 120.4 })
  const limited = await api().makeKey(ana, { resources: [two.id] })
  t.deepEqual((await api().as(limited.key).get('/v2/apps/status')).body.response.applications.length, 1)
})

test('an unknown workspace is refused', async t => {
  const ana = await api().makeUser()
  await api().makeApp(ana)
  for (const id of ['x', 'a'.repeat(40), '%00', '']) {
    const answer = await api().as(ana).get(`/v2/apps/status?workspaceId=${id}`)
    t.is(answer.status, 404)
    t.is(answer.body.code, 'UNKNOWN_WORKSPACE')
  }
})

test('logs are read from the host', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const logs = () => api().as(ana).get(`/v2/apps/${app.id}/logs`)
  api().hosts.printed.set(app.id, null)
  t.is((await logs()).body.code, 'LOGS_UNAVAILABLE')
  api().hosts.printed.set(app.id, 'hello\nwörld\n')
  t.deepEqual((await logs()).body, { status: 'success', response: { logs: 'hello\nwörld\n' } })
  api().hosts.silent.set(app.id, 'CLUSTER_UNAVAILABLE')
  const away = await logs()
  t.is(away.status, 503)
  t.is(away.body.code, 'CLUSTER_UNAVAILABLE')
  t.truthy(away.headers.get('retry-after'))
  api().hosts.silent.set(app.id, 'CLUSTER_TIMEOUT')
  t.like(await logs(), { status: 504, body: { code: 'CLUSTER_TIMEOUT' } })
})
