import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { transaction } from '../../../db/database.ts'
import { appendLog, record } from '../../../db/deployments.ts'
import { queueDeploy } from '../../../db/deploys.ts'
import { realtimeConnections } from '../../../policy/limits.ts'
import { type TestUser, testApi } from '../../kit/api.ts'
import { EventReader } from '../../kit/event-stream.ts'

/** With the limits of an installation as it comes. */
const api = testApi({ scale: 1 })

async function deployed(user: TestUser): Promise<{ appId: string; id: string }> {
  const app = await api().makeApp(user)
  const queued = await transaction(api().db, trx =>
    queueDeploy(trx, {
      appId: app.id,
      ownerId: user.id,
      actor: user.id,
      trigger: 'webhook',
      revision: 'a'.repeat(40),
      cloneUrl: 'https://git.example.org/a/b.git',
      branch: 'main',
    }),
  )
  return { appId: app.id, id: queued!.deploymentId }
}

test('who follows a log has a place of the live streams, and gives it back', async t => {
  const ana = await api().makeUser()
  const { appId, id } = await deployed(ana)
  const path = `/v2/apps/${appId}/deployments/${id}/logs`
  const open = () => new EventReader(`${api().url}${path}`, ana.key)
  const streams = Array.from({ length: realtimeConnections.perUser }, open)
  for (const stream of streams) t.is((await stream.begun).statusCode, 200)
  const refused = open()
  t.is((await refused.begun).statusCode, 429)
  await refused.ended
  t.is(JSON.parse(refused.text).code, 'REALTIME_MAX_CONNECTIONS')
  t.is((await api().as(ana).get(path)).status, 200, 'reading it whole takes no place')
  await record(api().db, id, { state: 'success' })
  for (const stream of streams) t.is((await stream.ended).at(-1)?.event, 'end')
  const held = () => api().db('realtime_listeners').where({ user_id: ana.id })
  for (let i = 0; i < 600 && (await held()).length > 0; i++) await sleep(50)
  t.deepEqual(await held(), [])
})

test('a log that says nothing costs next to no statements', async t => {
  const ana = await api().makeUser()
  const { appId, id } = await deployed(ana)
  await appendLog(api().db, id, 'begun')
  const stream = new EventReader(`${api().url}/v2/apps/${appId}/deployments/${id}/logs`, ana.key)
  await stream.until(({ frames }) => frames.length > 0)
  await sleep(600)
  let looks = 0
  const count = ({ sql, bindings }: { sql: string; bindings?: unknown[] }) => {
    if (/deployment_logs/.test(sql) && bindings?.includes(id)) looks++
  }
  api().db.on('query', count)
  await sleep(2500)
  api().db.off('query', count)
  // Every 3 s; asked every 500 ms it would be five.
  t.true(looks <= 1, `${looks} looks`)
  stream.leave()
})

test('a log that is larger than what waits for a reader comes whole, in pieces', async t => {
  const ana = await api().makeUser()
  const { appId, id } = await deployed(ana)
  const line = `${'x'.repeat(99)}\n`
  for (let n = 0; n < 40; n++) await appendLog(api().db, id, line.repeat(1000))
  await record(api().db, id, { state: 'success' })
  const frames = await new EventReader(`${api().url}/v2/apps/${appId}/deployments/${id}/logs`, ana.key).ended
  const logs = frames.filter(({ event }) => event === 'logs')
  t.is(frames.at(-1)?.event, 'end')
  t.true(logs.length >= 10, `${logs.length} frames`)
  t.true(logs.map(({ data }) => data).join('') === line.repeat(40_000))
})
