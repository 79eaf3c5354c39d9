import { createServer, type RequestListener } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { hostCall } from '../../../api/hosts/host-call.ts'
import { httpHostReader } from '../../../api/hosts/host-reader.ts'
import { NetworkRates } from '../../../api/hosts/network-rates.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import { hostReadKey } from '../../../policy/keys.ts'
import { listening, masterKey, testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'

const api = testApi()
const reading = {
  state: { status: 'running', running: true, startedAt: '2030-01-01T00:00:00.000Z', exitCode: null, oom: false },
  stats: {
    cpuPercent: 1,
    memoryBytes: 2,
    memoryLimitBytes: 3,
    networkIn: 4,
    networkOut: 5,
    blockRead: 6,
    blockWrite: 7,
  },
  storageBytes: 8,
}

async function hostThat(t: ExecutionContext, listener: RequestListener, now?: () => number) {
  const server = createServer(listener)
  const url = await listening(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await api().db('hosts').where({ id: 'h1' }).update({ read_url: url })
  const app = await api().makeApp(await api().makeUser())
  return { app, reader: httpHostReader(api().db, hostCall(api().db, masterKey), now) }
}

test.serial('the reader uses the key of that host, and retains the last figures', async t => {
  const asked: string[] = []
  const { app, reader } = await hostThat(t, (request, response) => {
    asked.push(`${request.url} ${request.headers.authorization}`)
    response.end(request.url?.includes('logs') ? 'hello' : JSON.stringify(reading))
  })
  t.deepEqual(await reader.stats(app), reading)
  t.is(await reader.logs(app, 100), 'hello')
  const key = hostReadKey(masterKey, 'h1')
  t.deepEqual(asked, [`/apps/${app.id}/stats Bearer ${key}`, `/apps/${app.id}/logs?maxBytes=100 Bearer ${key}`])
  for (let i = 0; i < 50 && !(await loadApp(api().db, app.id))?.last_stats; i++)
    await new Promise(resolve => setTimeout(resolve, 20))
  t.deepEqual((await loadApp(api().db, app.id))?.last_stats, reading)
})

test.serial('a clock that is set back delays neither the figures that are stored nor rates', async t => {
  let steadyMs = 5000
  let answer = reading
  const { app, reader } = await hostThat(
    t,
    (_, response) => void response.end(JSON.stringify(answer)),
    () => steadyMs,
  )
  const rates = new NetworkRates(() => steadyMs)
  const wall = Date.now
  t.teardown(() => {
    Date.now = wall
  })
  const stored = async () => (await loadApp(api().db, app.id))?.last_stats
  await reader.stats(app)
  await comesTrue(async () => (await stored()) !== null)
  t.deepEqual(rates.of(app.id, answer), [0, 0])
  Date.now = () => wall() - 3_600_000
  steadyMs += 31_000
  answer = { ...reading, storageBytes: 9, stats: { ...reading.stats, networkIn: 31_004 } }
  t.deepEqual(await reader.stats(app), answer)
  t.deepEqual(rates.of(app.id, answer), [1000, 0])
  await comesTrue(async () => ((await stored()) as typeof reading).storageBytes === 9)
})

test.serial('no logs are null, refusals are an unavailable host', async t => {
  const { app, reader } = await hostThat(t, (request, response) => {
    response.statusCode = request.url?.includes('logs') ? 404 : 500
    response.end('nothing')
  })
  t.is(await reader.logs(app, 100), null)
  t.is(await reader.stats(app), null)
})

test.serial('a host that hangs is given up after 3 s', async t => {
  const { app, reader } = await hostThat(t, () => {})
  const started = performance.now()
  const [stats, logs] = await Promise.allSettled([reader.stats(app), reader.logs(app, 100)])
  t.true(performance.now() - started < 3500)
  t.deepEqual(stats, { status: 'fulfilled', value: null })
  t.is(logs.status === 'rejected' && logs.reason.code, 'CLUSTER_TIMEOUT')
})

test.serial('a host that answers nonsense, or is unreachable, or was not seen for 5 s', async t => {
  const { app, reader } = await hostThat(t, (_, response) => void response.end('not json'))
  t.is(await reader.stats(app), null)
  await api().db('hosts').update({ read_url: 'http://127.0.0.1:1' })
  t.is(await reader.stats(app), null)
  await t.throwsAsync(reader.logs(app, 100), { message: /does not respond/ })
  await api()
    .db('hosts')
    .update({ last_seen_at: new Date(Date.now() - 6000) })
  t.is(await reader.stats(app), null)
  await t.throwsAsync(reader.logs(app, 100), { message: /does not respond/ })
})
