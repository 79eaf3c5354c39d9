import { connect } from 'node:net'
import test from 'ava'
import { type Db, openDatabase } from '../../../../db/database.ts'
import { type Answer, openApiFor, type TestApi, type TestUser } from '../../../kit/actors/api.ts'
import { callsTo, chat, hello, testChatApi } from '../../../kit/actors/chat-api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import type { ModelScript } from '../../../kit/servers/model-server.ts'
import { type PostgresLine, postgresLine } from '../../../kit/servers/postgres-line.ts'

const { api, server } = testChatApi()
const undo: (() => Promise<unknown>)[] = []
let line: PostgresLine
/** An API whose line to Postgres can break, and one whose calls may last half a second. */
let lined: TestApi
let hasty: TestApi

// Before the database, which is dropped after it.
test.serial.after.always('end them', async () => {
  for (const { services } of [lined, hasty]) await services.chatCalls.end(0)
  for (const step of undo.reverse()) await step()
})
const database = testDatabase()

test.before('both', async () => {
  const near = await database
  line = await postgresLine(near.url)
  const db = openDatabase({ url: line.url, pool: 4, statementTimeoutMs: 1000 })
  undo.push(
    () => line.close(),
    () => db.destroy(),
  )
  const calls = (db: Db, seconds?: number) => ({
    services: ({ log }: TestApi['services']) => ({
      db,
      chatCalls: callsTo(server(), { db, log, countTokens: null, searches: false, dailyTokens: null, seconds }),
    }),
  })
  lined = await openApiFor(near, calls(db), undo)
  hasty = await openApiFor(near, calls(near.db, 0.5), undo)
})
test.beforeEach(() => server().reset())

const failed = ({ status, body, headers }: Answer) => [status, body.error?.code, headers.get('retry-after')]

const inFlight = (of: TestApi, { id }: TestUser) => of.db('ai_calls').where({ user_id: id })
const tokensOf = async (of: TestApi, { id }: TestUser) =>
  Number(
    (
      await of
        .db('ai_budgets')
        .where({ subject: `user/${id}` })
        .first()
    )?.tokens ?? 0,
  )

/** Starts a call that its caller may give up. */
function start(of: TestApi, user: TestUser): { giveUp(): void; answer: Promise<Response | undefined> } {
  const ending = new AbortController()
  const request = {
    method: 'POST',
    headers: { authorization: user.key },
    body: JSON.stringify(hello),
    signal: ending.signal,
  }
  const answer = fetch(`${of.url}/v2/ai/chat/completions`, request).catch(() => undefined)
  return { giveUp: () => ending.abort(), answer }
}

test.serial('a call that no model began to answer costs neither tokens nor pacing', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  const scripts: ModelScript[] = [{ status: 500 }, { cutAfter: 0 }, { status: 401 }, { body: 'nonsense' }]
  for (const script of scripts) {
    server().next(script)
    t.deepEqual(failed(await chat(api(), ana)), [503, 'server_overloaded', '5'])
    t.deepEqual(await inFlight(api(), ana), [])
    // Three failures in a row would skip the model for a while.
    t.is((await chat(api(), await api().makeUser({ plan: 'pro-12' }))).status, 200)
  }
  t.is(await tokensOf(api(), ana), 0)
  t.is((await chat(api(), ana)).status, 200)
})

test.serial('a request that the model refuses is invalid_request in our words, and free', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  server().next({ status: 400, body: '{"error":{"message":"key sk-planted-secret is wrong"}}' })
  const answer = await chat(api(), ana)
  t.deepEqual(failed(answer), [400, 'invalid_request', null])
  t.false(answer.text.includes('planted'))
  t.is((await chat(api(), ana)).status, 200)
})

test.serial('an answer that breaks off is server_overloaded, and what was generated is charged', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  server().next({ text: Array(20).fill('word '), cutAfter: 12 })
  t.deepEqual(failed(await chat(api(), ana)), [503, 'server_overloaded', '5'])
  const tokens = await tokensOf(api(), ana)
  t.true(tokens > 10 && tokens < 40, `${tokens}`)
  t.is(failed(await chat(api(), ana))[1], 'rate_limit_exceeded')
})

test.serial('a caller who disconnects cancels the model, and is charged for what it wrote', async t => {
  const ana = await api().makeUser({ plan: 'enterprise-24' })
  // Without the disconnect it would go on for minutes.
  server().next({ text: Array(5000).fill('word '), everyMs: 50 })
  const call = start(api(), ana)
  await server().received(1)
  await comesTrue(async () => (await inFlight(api(), ana)).length === 1)
  await new Promise(resolve => setTimeout(resolve, 500))
  call.giveUp()
  t.is(await server().requests[0]!.outcome, 'aborted')
  await comesTrue(async () => (await inFlight(api(), ana)).length === 0)
  t.true((await tokensOf(api(), ana)) > 0)
})

test.serial('a caller of pipelined requests who disconnects cancels all of them', async t => {
  const ana = await api().makeUser({ plan: 'enterprise-24' })
  server().next(...Array(2).fill({ text: Array(5000).fill('word '), everyMs: 50 }))
  const body = JSON.stringify(hello)
  const head = `POST /v2/ai/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: ${ana.key}\r\n`
  const one = `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  const client = connect(Number(new URL(api().url).port), '127.0.0.1')
  client.on('error', () => {})
  client.write(one + one)
  await server().received(2)
  client.destroy()
  for (const { outcome } of server().requests) t.is(await outcome, 'aborted')
  await comesTrue(async () => (await inFlight(api(), ana)).length === 0)
})

test.serial('a call that takes too long is server_overloaded, and the model is cancelled', async t => {
  const ana = await hasty.makeUser({ plan: 'enterprise-24' })
  // It would be complete after half a minute, and is never silent.
  server().next({ text: Array(300).fill('word '), everyMs: 100 })
  const answer = await chat(hasty, ana)
  t.deepEqual(failed(answer), [503, 'server_overloaded', '61'])
  t.is(answer.headers.get('x-should-retry'), 'false', 'it would take as long again')
  t.regex(answer.body.error.message, /longer than 0.5 s. Set a smaller max_tokens/)
  t.is(await server().requests[0]!.outcome, 'aborted')
  t.deepEqual(await inFlight(hasty, ana), [])
  const tokens = await tokensOf(hasty, ana)
  t.true(tokens > 6 && tokens < 200, `${tokens}`)
})

test.serial('the time of a call runs from the arrival of its request', async t => {
  const ana = await hasty.makeUser({ plan: 'enterprise-24' })
  const slowly = new ReadableStream({
    async start(body) {
      const text = JSON.stringify({ messages: [{ role: 'user', content: 'slowly' }] })
      body.enqueue(new TextEncoder().encode(text.slice(0, 10)))
      await new Promise(resolve => setTimeout(resolve, 2000))
      body.enqueue(new TextEncoder().encode(text.slice(10)))
      body.close()
    },
  })
  const request = { method: 'POST', headers: { authorization: ana.key }, body: slowly, duplex: 'half' } as const
  const answer = await fetch(`${hasty.url}/v2/ai/chat/completions`, request as RequestInit)
  t.is(answer.status, 503)
  t.false(JSON.stringify(server().requests.map(({ body }) => body)).includes('slowly'))
})

test.serial('without a configured model a call is refused immediately, and clients are not to repeat it', async t => {
  const { services } = api()
  const [ana, calls] = [await api().makeUser({ plan: 'enterprise-24' }), services.chatCalls]
  const none = { countTokens: null, searches: false, dailyTokens: null, model: null }
  Object.assign(services, {
    chatCalls: new (calls.constructor as typeof import('../../../../api/v2/ai/chat-calls.ts').ChatCalls)({
      db: api().db,
      log: services.log,
      ...none,
    }),
  })
  const answer = await chat(api(), ana)
  Object.assign(services, { chatCalls: calls })
  t.deepEqual(failed(answer), [503, 'server_overloaded', '300'])
  t.is(answer.headers.get('x-should-retry'), 'false')
  t.deepEqual(await inFlight(api(), ana), [])
})

test.serial('without Postgres no call is admitted, and no model called', async t => {
  const ana = await lined.makeUser({ plan: 'enterprise-24' })
  t.is((await chat(lined, ana)).status, 200)
  const sprung = line.trap({ at: /ai[._](count.and.)?admit/, loss: 'lost', manner: 'cut' })
  t.deepEqual(failed(await chat(lined, ana)), [503, 'server_overloaded', '2'])
  await sprung
  const silent = line.trap({ at: /ai[._](count.and.)?admit/, loss: 'lost', manner: 'held' })
  t.deepEqual(failed(await chat(lined, ana)), [503, 'server_overloaded', '2'])
  await silent
  await line.release()
  t.is(server().requests.length, 1)
  await comesTrue(async () => (await inFlight(lined, ana)).length === 0)
  t.is((await chat(lined, ana)).status, 200)
})

test.serial('a slot whose admission was not confirmed is freed immediately, and not after 95 s', async t => {
  const ana = await lined.makeUser({ plan: 'pro-12' })
  t.is((await chat(lined, await lined.makeUser({ plan: 'pro-12' }))).status, 200)
  const sprung = line.trap({ at: /ai[._](count.and.)?admit/, loss: 'answered', manner: 'cut' })
  t.deepEqual(failed(await chat(lined, ana)), [503, 'server_overloaded', '2'])
  await sprung
  await comesTrue(async () => (await inFlight(lined, ana)).length === 0)
  t.is((await chat(lined, ana)).status, 200, 'nor did it cost the pacing')
})

for (const loss of ['lost', 'answered'] as const)
  test.serial(`a settlement that is ${loss} is tried again, and charges once`, async t => {
    const ana = await lined.makeUser({ plan: 'enterprise-24' })
    t.is((await chat(lined, ana)).status, 200)
    const sprung = line.trap({ at: /ai[._]settle/, loss, manner: 'cut' })
    t.is((await chat(lined, ana)).status, 200)
    await sprung
    t.deepEqual(await inFlight(lined, ana), [])
    t.is(await tokensOf(lined, ana), 24)
  })

test.serial('a process that ends lets calls finish for a while, and tells the others to try again', async t => {
  const { db, log } = api().services
  const ana = await api().makeUser({ plan: 'enterprise-24' })
  const ending = callsTo(server(), { db, log, countTokens: null, searches: false, dailyTokens: null })
  const { services } = api()
  const calls = services.chatCalls
  Object.assign(services, { chatCalls: ending })
  server().next({ silentAfter: 0 }, { headersAfterMs: 300 })
  const held = start(api(), ana).answer
  await server().received(1)
  const finishing = start(api(), ana).answer
  await server().received(2)
  const ended = ending.end(1)
  t.is((await finishing)?.status, 200)
  const cut = await held
  t.deepEqual([cut?.status, cut?.headers.get('retry-after')], [503, '1'])
  await ended
  t.deepEqual(await inFlight(api(), ana), [])
  const requests = server().requests.length
  const late = await chat(api(), ana)
  t.deepEqual(failed(late), [503, 'server_overloaded', '1'], 'one that comes on an open connection')
  t.is(server().requests.length, requests)
  Object.assign(services, { chatCalls: calls })
})

test.serial('a caller who leaves before the answer begins has paid for the prompt, and keeps the pacing', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  server().next({ silentAfter: 0 })
  const call = start(api(), ana)
  await server().received(1)
  call.giveUp()
  await comesTrue(async () => (await inFlight(api(), ana)).length === 0 && (await tokensOf(api(), ana)) > 0)
  t.is(await tokensOf(api(), ana), 6)
  t.is(failed(await chat(api(), ana))[1], 'rate_limit_exceeded')
  const [{ refusals }] = await api().db('ai_days').where({ user_id: ana.id })
  t.false('server_overloaded' in refusals, 'that was no refusal')
})

test.serial('an admission that is confirmed only after its caller was refused is freed too', async t => {
  const ana = await lined.makeUser({ plan: 'pro-12' })
  t.is((await chat(lined, await lined.makeUser({ plan: 'pro-12' }))).status, 200)
  const { db } = await database
  await db('ai_budgets').insert({ subject: `user/${ana.id}`, day: '2000-01-01' })
  const lock = await db.transaction()
  await lock('ai_budgets')
    .where({ subject: `user/${ana.id}` })
    .forUpdate()
    .first()
  const patient = openDatabase({ url: (await database).url, pool: 1, statementTimeoutMs: 20_000 })
  undo.push(() => patient.destroy())
  const { chatCalls } = lined.services
  const { log } = lined.services
  const own = callsTo(server(), { db: patient, log, countTokens: null, searches: false, dailyTokens: null })
  Object.assign(lined.services, { chatCalls: own })
  const refused = await chat(lined, ana)
  Object.assign(lined.services, { chatCalls })
  t.deepEqual(failed(refused), [503, 'server_overloaded', '2'])
  await lock.rollback()
  await comesTrue(async () => {
    const budget = await db('ai_budgets')
      .where({ subject: `user/${ana.id}` })
      .first()
    return budget.next_at > new Date(0) && (await inFlight(lined, ana)).length === 0
  })
  t.is((await chat(lined, ana)).status, 200)
  await own.end(0)
})
