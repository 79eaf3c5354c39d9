import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { transaction } from '../../../../db/database.ts'
import { appendLog, recordDeploymentStep } from '../../../../db/deploys/deployments.ts'
import { queueDeploy } from '../../../../db/deploys/deploys.ts'
import { FairSlots } from '../../../../lib/async/fair-slots.ts'
import { followedLogs, realtimeConnections, wholeLogs } from '../../../../policy/limits.ts'
import { type TestApi, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { EventReader } from '../../../kit/actors/event-stream.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

/** With the limits of an installation as it comes. */
const api = testApi({ scale: 1 })

/** Two places, one of each account, and nobody waits long. */
class FewSlots extends FairSlots {
  constructor() {
    super({ atOnce: 2, perSubject: 1 })
  }
  override enterUntil(subject: string): Promise<() => void> {
    return super.enterUntil(subject, AbortSignal.timeout(50))
  }
}
const few = new FewSlots()
const narrow = testApi({ scale: 1, services: () => ({ logSlots: few }) })

async function deployed(user: TestUser, at: TestApi = api()): Promise<{ appId: string; id: string }> {
  const app = await at.makeApp(user)
  const queued = await transaction(at.db, trx =>
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

test('an account follows a limited number of logs, in addition to its live streams, and frees their slots', async t => {
  t.is(followedLogs.perUser, 10)
  const ana = await api().makeUser()
  const { appId, id } = await deployed(ana)
  const path = `/v2/apps/${appId}/deployments/${id}/logs`
  for (let n = 0; n < realtimeConnections.perUser; n++) await api().services.leases.take(ana.id, appId)
  const open = () => new EventReader(`${api().url}${path}`, ana.key)
  const streams = Array.from({ length: followedLogs.perUser }, open)
  for (const stream of streams) t.is((await stream.started).statusCode, 200)
  const refused = open()
  t.is((await refused.started).statusCode, 429)
  await refused.ended
  const { code, message } = JSON.parse(refused.text)
  t.is(code, 'KEEP_CALM')
  t.is(message, `An account can follow ${followedLogs.perUser} logs at the same time. Close one of them or wait.`)
  t.is((await api().as(ana).get(path)).status, 200, 'reading it whole takes no place')
  const bob = await api().makeUser()
  const other = await deployed(bob)
  const another = new EventReader(`${api().url}/v2/apps/${other.appId}/deployments/${other.id}/logs`, bob.key)
  t.is((await another.started).statusCode, 200, 'another account has places of its own')
  another.leave()
  await recordDeploymentStep(api().db, id, { state: 'success' })
  for (const stream of streams) t.is((await stream.ended).at(-1)?.event, 'end')
  const held = () =>
    api()
      .db('blob_leases')
      .where({ subject: `followed-log/${ana.id}` })
  await comesTrue(async () => (await held()).length === 0)
})

/** Reads nothing of an answer before that is requested. */
function reluctant(path: string, key: string) {
  const call = get(`${api().url}${path}`, { agent: false, headers: { authorization: key } })
  const answer = new Promise<IncomingMessage>((resolve, reject) => call.once('response', resolve).once('error', reject))
  return { started: answer.then(response => response.statusCode), answer }
}

test('stalled readers of whole logs hold a piece each, and their number per account is limited', async t => {
  t.timeout(120_000)
  t.is(wholeLogs.perSubject, 10)
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [slow, quick] = [await deployed(ana), await deployed(bob)]
  const path = `/v2/apps/${slow.appId}/deployments/${slow.id}/logs`
  // Six times as long on the wire, so that no kernel takes all of it.
  const line = '\u001b'.repeat(64 * 1024)
  const pieces = 64
  for (let n = 0; n < pieces; n++) await appendLog(api().db, slow.id, line)
  await appendLog(api().db, quick.id, 'done')
  let looks = 0
  const count = ({ sql, bindings }: { sql: string; bindings?: unknown[] }) => {
    if (/deployment_logs/.test(sql) && bindings?.includes(slow.id)) looks++
  }
  api().db.on('query', count)
  t.teardown(() => api().db.off('query', count))
  const readers = Array.from({ length: wholeLogs.perSubject }, () => reluctant(path, ana.key))
  for (const { started } of readers) t.is(await started, 200)
  let answered = false
  const next = reluctant(path, ana.key)
  void next.started.then(() => {
    answered = true
  })
  const quickPath = `/v2/apps/${quick.appId}/deployments/${quick.id}/logs`
  for (let n = 0; n < 3; n++) t.is((await api().as(bob).get(quickPath)).body.response.logs, 'done')
  t.false(answered, 'it waits for its turn')
  const all = readers.length * (pieces / 4 + 1)
  t.true(looks < all, `${looks} looks of ${all}`)
  ;(await readers[0]!.answer).destroy()
  t.is(await next.started, 200)
  for (const { answer } of readers.slice(2)) (await answer).destroy()
  const chunks: Buffer[] = []
  for await (const chunk of await readers[1]!.answer) chunks.push(chunk)
  t.true(JSON.parse(Buffer.concat(chunks).toString()).response.logs === line.repeat(pieces))
  ;(await next.answer).destroy()
})

test("a reader whose turn does not come hears whether its own account or others' hold the places", async t => {
  const ana = await narrow().makeUser()
  const { appId, id } = await deployed(ana, narrow())
  const path = `/v2/apps/${appId}/deployments/${id}/logs`
  const refusal = async () => {
    const { status, body } = await narrow().as(ana).get(path)
    return `${status} ${body.code} ${body.message}`
  }
  const [own, other] = [await few.enter(ana.id), await few.enter('bob')]
  t.regex(await refusal(), /^429 KEEP_CALM An account can read .* Close one of them or wait\.$/)
  own!()
  const third = await few.enter('carl')
  t.regex(await refusal(), /^429 KEEP_CALM Too many logs are being read by other accounts\. Try again in a minute/)
  for (const leave of [other, third]) leave!()
  t.is((await narrow().as(ana).get(path)).status, 200)
})

test('following a silent log costs next to no statements', async t => {
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

test('a log that is larger than a reader’s buffer arrives completely, in pieces', async t => {
  const ana = await api().makeUser()
  const { appId, id } = await deployed(ana)
  const line = `${'x'.repeat(99)}\n`
  for (let n = 0; n < 40; n++) await appendLog(api().db, id, line.repeat(1000))
  await recordDeploymentStep(api().db, id, { state: 'success' })
  const frames = await new EventReader(`${api().url}/v2/apps/${appId}/deployments/${id}/logs`, ana.key).ended
  const logs = frames.filter(({ event }) => event === 'logs')
  t.is(frames.at(-1)?.event, 'end')
  t.true(logs.length >= 10, `${logs.length} frames`)
  t.true(logs.map(({ data }) => data).join('') === line.repeat(40_000))
})
