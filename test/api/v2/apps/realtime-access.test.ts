import test from 'ava'
import { RealtimeLeases } from '../../../../api/hosts/realtime-leases.ts'
import { revokeKey, revokeSession, setBlocked } from '../../../../db/accounts/accounts.ts'
import { removeApp } from '../../../../db/apps/app-creation.ts'
import type { AppRow } from '../../../../db/apps/apps.ts'
import { sweepStreamLeases } from '../../../../db/apps/realtime-listeners.ts'
import { registerHost } from '../../../../db/hosts/hosts.ts'
import { openApiFor, type TestApi, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { EventReader } from '../../../kit/actors/event-stream.ts'
import { ScriptedLive } from '../../../kit/fakes/scripted-live.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const api = testApi()
const undo: (() => Promise<unknown>)[] = []
/** Two more processes on one database of their own, with the limits of an installation as it comes. */
const pair: TestApi[] = []
const shared = testDatabase()
test.before(async () => {
  const database = await shared
  const host = { address: '127.0.0.1', readUrl: '', memoryMb: 1e6, diskMb: 1e6, protections: {} }
  await registerHost(database.db, { id: 'h1', ...host })
  await database.db('hosts').update({ last_seen_at: '2100-01-01' })
  for (let n = 0; n < 2; n++) pair.push(await openApiFor(database, { scale: 1 }, undo))
})
test.after.always(async () => {
  for (const step of undo.reverse()) await step()
})

async function liveApp(user: TestUser, apis: TestApi[] = [api()]): Promise<AppRow> {
  const app = await apis[0]!.makeApp(user)
  for (const { hosts } of apis) hosts.streams.set(app.id, new ScriptedLive())
  return app
}

const open = (app: AppRow, credential: string, { url } = api()) =>
  new EventReader(`${url}/v2/apps/${app.id}/realtime`, credential)

/** The status, and the code of a refusal. */
async function answer(reader: EventReader): Promise<string> {
  const { statusCode } = await reader.started
  if (statusCode === 200) await reader.until(({ frames }) => frames.length >= 3)
  else await reader.ended
  return statusCode === 200 ? '200' : `${statusCode} ${JSON.parse(reader.text).code}`
}

test('an account has five streams over all processes, even if more are opened concurrently', async t => {
  const ana = await pair[0]!.makeUser()
  const apps = await Promise.all(Array.from({ length: 12 }, () => liveApp(ana, pair)))
  const readers = apps.map((app, n) => open(app, ana.key, pair[n % 2]))
  const answers = await Promise.all(readers.map(answer))
  t.is(answers.filter(text => text === '200').length, 5, answers.join())
  t.is(answers.filter(text => text === '429 REALTIME_MAX_CONNECTIONS').length, 7)

  const bob = await pair[0]!.makeUser()
  const other = open(await liveApp(bob, pair), bob.key, pair[0])
  t.is(await answer(other), '200', 'another account is not concerned')
  for (const reader of [...readers, other]) reader.leave()
  const next = await liveApp(ana, pair)
  await until(async () => Number((await pair[0]!.db('realtime_listeners').where({ user_id: ana.id })).length) === 0)
  const free = open(next, ana.key, pair[1])
  t.is(await answer(free), '200')
  free.leave()
  t.is(await answer(open(next, ana.key, pair[0])), '429 KEEP_CALM', 'one opening per 5 s')
})

test('an application has thirty streams; leases of a process that died expire', async t => {
  const { db } = pair[0]!
  const ana = await pair[0]!.makeUser()
  const app = await liveApp(ana, pair)
  const processes = Array.from({ length: 4 }, () => new RealtimeLeases(db, 1))
  const members = Array.from({ length: 31 }, (_, n) => ({ userId: `member-${n}`, leases: processes[n % 4]! }))
  const taken = await Promise.allSettled(members.map(({ userId, leases }) => leases.take(userId, app.id)))
  t.is(taken.filter(({ status }) => status === 'fulfilled').length, 30)
  t.is(await answer(open(app, ana.key, pair[0])), '429 REALTIME_MAX_CONNECTIONS_APP')
  await db('realtime_listeners')
    .where({ app_id: app.id })
    .update({ expires_at: new Date(Date.now() - 1000) })
  await processes[0]!.renew()
  await sweepStreamLeases(db)
  const alive = async () => (await db('realtime_listeners').where({ app_id: app.id })).length
  const renewed = await alive()
  t.true(renewed === 7 || renewed === 8, 'those of the process that lives')
  await db('realtime_listeners').where({ app_id: app.id }).delete()
  await processes[0]!.renew()
  t.is(await alive(), renewed, 'a crash of the database empties the table')
})

test('RATE_LIMIT_SCALE widens both', async t => {
  const leases = new RealtimeLeases(pair[0]!.db, 2.2)
  const taken = await Promise.allSettled(Array.from({ length: 14 }, () => leases.take('many', 'app-of-many')))
  t.is(taken.filter(({ status }) => status === 'fulfilled').length, 11)
})

const losses: Record<string, (user: TestUser, app: AppRow) => Promise<unknown>> = {
  'its key is revoked': user => revokeKey(api().db, user.keyId),
  'its account is blocked': user => setBlocked(api().db, user.id, true),
  'its application is deleted': (_, app) => removeApp(api().db, app.id),
}
for (const [loss, lose] of Object.entries(losses))
  test(`a stream ends within 5 s when ${loss}, and nobody else's`, async t => {
    const [ana, bob] = [await api().makeUser(), await api().makeUser()]
    const [mine, foreign] = [await liveApp(ana), await liveApp(bob)]
    const [ends, stays] = [open(mine, ana.key), open(foreign, bob.key)]
    t.deepEqual(await Promise.all([answer(ends), answer(stays)]), ['200', '200'])
    await lose(ana, mine)
    const startedAt = performance.now()
    await ends.ended
    t.true(performance.now() - startedAt < 5000)
    t.deepEqual(ends.of('system').slice(2), ['REALTIME_DISCONNECTED'])
    t.false(stays.over)
    stays.leave()
  })

test('a session that ends closes its streams, those of a key continue', async t => {
  const ana = await api().makeUser()
  const app = await liveApp(ana)
  const [session, key] = [open(app, ana.session), open(app, ana.key)]
  await Promise.all([answer(session), answer(key)])
  await revokeSession(api().db, ana.sessionId)
  await session.ended
  t.deepEqual(session.of('system').slice(2), ['REALTIME_DISCONNECTED'])
  await new Promise(resolve => setTimeout(resolve, 1000))
  t.false(key.over)
  key.leave()
})

test('a key that expires closes its streams', async t => {
  const ana = await api().makeUser()
  const app = await liveApp(ana)
  const { key } = await api().makeKey(ana, { expiresAt: new Date(Date.now() + 1500) })
  const reader = open(app, key)
  await answer(reader)
  await reader.ended
  t.deepEqual(reader.of('system').slice(2), ['REALTIME_DISCONNECTED'])
})

test('a process that is about to end asks its clients to reconnect, new ones too', async t => {
  const more: (() => Promise<unknown>)[] = []
  const leaving = await openApiFor(await shared, { scale: 1000 }, more)
  const ana = await leaving.makeUser()
  const app = await liveApp(ana, [leaving])
  const before = open(app, ana.key, leaving)
  await answer(before)
  leaving.services.access.leave()
  const after = open(app, ana.key, leaving)
  for (const reader of [before, after]) {
    await reader.ended
    t.deepEqual(reader.of('system').slice(1), ['REALTIME_CONNECTED', 'REALTIME_RECONNECT'])
    t.true(reader.text.startsWith('retry: 6000\n\n'))
  }
  for (const step of more.reverse()) await step()
})

test('after its maximum time a stream asks to be opened again', async t => {
  const more: (() => Promise<unknown>)[] = []
  const services = () => ({ leases: new RealtimeLeases(leasesDb, 1000, 300) })
  const { db: leasesDb } = await shared
  const hasty = await openApiFor(await shared, { scale: 1000, services }, more)
  const ana = await hasty.makeUser()
  const reader = open(await liveApp(ana, [hasty]), ana.key, hasty)
  await reader.ended
  t.deepEqual(reader.of('system').slice(1), ['REALTIME_CONNECTED', 'REALTIME_TIMEOUT', 'REALTIME_RECONNECT'])
  t.is(api().services.leases.maxMs, 600_000)
  for (const step of more.reverse()) await step()
})

async function until(what: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 5000; !(await what()); await new Promise(resolve => setTimeout(resolve, 20)))
    if (Date.now() > end) throw new Error('not within 5 s')
}
