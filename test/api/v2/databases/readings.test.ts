import test from 'ava'
import type { HostReading } from '../../../../api/hosts/host-reader.ts'
import { saveDatabaseMetrics } from '../../../../db/databases/database-metrics.ts'
import { enqueueOperation } from '../../../../db/operations/operations.ts'
import { TtlCache } from '../../../../lib/async/ttl-cache.ts'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi()
const mb = 1024 * 1024

const running: HostReading = {
  state: { status: 'running', running: true, startedAt: '2026-01-01T00:00:00.000Z', exitCode: null, oom: false },
  stats: {
    ...{ cpuPercent: 0.5, memoryBytes: 120.4 * mb, memoryLimitBytes: 512 * mb },
    ...{ networkIn: 12.3 * 1024, networkOut: 4.5 * 1024, blockRead: 0, blockWrite: 0 },
  },
  storageBytes: 2.7 * mb,
}

test('a running database is shown in texts and in numbers', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  api().hosts.readings.set(id, running)
  const texts = (await api().as(ana).get(`/v2/databases/${id}/status`)).body.response
  t.true(texts.uptime > 0)
  t.deepEqual(texts, {
    ...{ cpu: '0.50%', ram: '120.4/512MB', status: 'running', running: true, storage: '2.7MB', uptime: texts.uptime },
    network: { total: '12.3KB ↑ 4.5KB ↓', now: '0.0KB ↑ 0.0KB ↓' },
  })
  const raw = (await api().as(ana).get(`/v2/databases/${id}/status?rawData=true`)).body.response
  t.deepEqual(raw, {
    ...{ cpu: 0.5, ram: 120.4, status: 'running', running: true, storage: Math.round(2.7 * mb), uptime: raw.uptime },
    network: { total: [Math.round(12.3 * 1024), 4608], now: [0, 0] },
  })
})

test('a database that was started again after a crash shows for a day how it ended', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  api().hosts.readings.set(id, running)
  const shown = async (ageSeconds: number) => {
    const at = new Date(Date.now() - ageSeconds * 1000)
    await api().db('databases').where({ id }).update({ crash_code: 137, crash_oom: true, crash_at: at })
    const { exit } = (await api().as(ana).get(`/v2/databases/${id}/status`)).body.response
    return { exit, at }
  }
  const { exit, at } = await shown(86_300)
  t.deepEqual(exit, { code: 137, oom: true, at: at.toISOString() })
  t.is((await shown(86_401)).exit, undefined)
})

test('a database whose host does not answer is shown as unreachable, with its last figures', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  await api().db('databases').where({ id }).update({ last_stats: running })
  const { response } = (await api().as(ana).get(`/v2/databases/${id}/status`)).body
  t.like(response, { status: 'unreachable', running: true, ram: '120.4/512MB', storage: '2.7MB' })
  t.deepEqual((await api().as(ana).get('/v2/databases/status')).body.response, [
    { id, running: true, cpu: '0.50%', ram: '120.4/512MB' },
  ])
})

test('a database that its host could not start says why, until it is stopped, stays down or runs', async t => {
  const ana = await api().makeUser()
  const { id, port } = await api().makeDatabase(ana)
  const start = { targetType: 'database', targetId: id, kind: 'start', ownerId: ana.id, actor: 'host-watch' } as const
  const ended = async (outcome: Record<string, unknown>) => {
    const operation = await enqueueOperation(api().db, start)
    await api().db('operations').where(operation).update(outcome)
  }
  const down = { status: 'exited', restarts: 0, restart_at: null, desired_state: 'running' }
  const shown = async (changes: Record<string, unknown> = {}, state: HostReading['state'] = null) => {
    await api()
      .db('databases')
      .where({ id })
      .update({ ...down, ...changes })
    api().hosts.readings.set(id, { ...running, state, stats: null })
    return (await api().as(ana).get(`/v2/databases/${id}/status`)).body.response.problem
  }
  t.is(await shown(), undefined)
  await ended({ state: 'error', code: 'CONTAINER_INSUFFICIENT_DISK_SPACE', message: 'The host is full.' })
  const full = {
    code: 'CONTAINER_INSUFFICIENT_DISK_SPACE',
    message:
      'The database is down, because its last start failed: The host is full. Berth starts it again at least every 5 minutes, once its host can.',
  }
  t.deepEqual(await shown(), full)
  await enqueueOperation(api().db, start)
  t.deepEqual(await shown({ status: 'starting' }), full, 'also while it is tried again')
  t.is(await shown({ desired_state: 'stopped' }), undefined)
  t.is(await shown({ restarts: 5 }), undefined)
  t.is(await shown({ restart_at: new Date() }), undefined)
  t.is(await shown({}, running.state), undefined)
  await ended({ state: 'error', code: 'CONTAINER_NETWORK_CONFLICT', message: 'The port is in use.' })
  t.like(await shown(), { code: 'CONTAINER_NETWORK_CONFLICT' })
  t.true((await shown()).message.includes(`Another program on its host uses its port ${port}, which does not change.`))
  const finishedAt = new Date()
  await ended({ state: 'error', message: 'The host is full.', finished_at: finishedAt })
  const later = (ms: number) => ({ exit_at: new Date(finishedAt.getTime() + ms) })
  t.like(await shown(later(-1)), { code: 'ACTION_FAILED' }, 'what ended before it')
  t.is(await shown(later(1)), undefined, 'it ran after that')
  await ended({ state: 'success' })
  t.is(await shown({ exit_at: null }), undefined)
})

test('the status of all has figures while a database runs, and is empty without one', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [one, two] = [await api().makeDatabase(ana), await api().makeDatabase(ana)]
  await api().makeDatabase(bob)
  await api().makeApp(ana)
  api().hosts.readings.set(one.id, running)
  const exited = { status: 'exited', running: false, startedAt: null, exitCode: 0, oom: false }
  api().hosts.readings.set(two.id, { ...running, state: exited, stats: null })
  t.deepEqual((await api().as(ana).get('/v2/databases/status')).body.response, [
    { id: one.id, running: true, cpu: '0.50%', ram: '120.4/512MB' },
    { id: two.id, running: false },
  ])
  t.deepEqual(
    (
      await api()
        .as(await api().makeUser())
        .get('/v2/databases/status')
    ).body.response,
    [],
  )
})

test('logs come from the host, with its codes', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const ask = async () => {
    const { status, body } = await api().as(ana).get(`/v2/databases/${id}/logs`)
    return [status, body.code ?? body.response]
  }
  api().hosts.printed.set(id, 'ready to accept connections\n')
  t.deepEqual(await ask(), [200, { logs: 'ready to accept connections\n' }])
  api().hosts.printed.set(id, null)
  t.deepEqual(await ask(), [404, 'LOGS_UNAVAILABLE'])
  api().hosts.silent.set(id, 'CLUSTER_UNAVAILABLE')
  t.deepEqual(await ask(), [503, 'CLUSTER_UNAVAILABLE'])
  api().hosts.silent.set(id, 'CLUSTER_TIMEOUT')
  t.deepEqual(await ask(), [504, 'CLUSTER_TIMEOUT'])
})

test('metrics are the points of the last 24 hours, newest first, cached for 150 s', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const ask = async () => (await api().as(ana).get(`/v2/databases/${id}/metrics`)).body.response
  t.deepEqual(await ask(), [])
  const ago = (minutes: number) => new Date(Math.floor(Date.now() / 300_000) * 300_000 - minutes * 60_000)
  const point = (minutes: number) => ({
    databaseId: id,
    at: ago(minutes),
    cpu: 1.234,
    ram: 56.78,
    netIn: 9,
    netOut: 10,
  })
  await saveDatabaseMetrics(api().db, [point(10), point(5), point(25 * 60)])
  t.deepEqual(await ask(), [], 'cached')
  api().services.metrics = new TtlCache(0)
  t.deepEqual(
    await ask(),
    [5, 10].map(minutes => ({ date: ago(minutes).toISOString(), cpu: 1.23, ram: 56.8, net: [9, 10] })),
  )
})
