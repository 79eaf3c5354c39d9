import test, { type ExecutionContext } from 'ava'
import { openLanguageModel } from '../../../activities/language-model/select.ts'
import { aiSettings } from '../../../policy/ai/ai-settings.ts'
import { type UpstreamTimes, upstreamTimes } from '../../../policy/ai/upstreams.ts'
import { failureOf, options, request } from '../../contracts/language-model.ts'
import { logLines } from '../../kit/log-sink.ts'
import { type ModelScript, ModelServer } from '../../kit/servers/model-server.ts'

interface Line {
  requestId: string
  upstream?: number
  status?: number
  code?: string
  reason: string
}

/** A model with several scripted upstreams. Upstreams that fail are skipped until the clock is moved. */
async function scene(
  t: ExecutionContext,
  count: number,
  own: {
    slots?: number
    processes?: number
    waitMs?: number
    waitingPerAccount?: number
    times?: Partial<UpstreamTimes>
  } = {},
) {
  const servers = await Promise.all(Array.from({ length: count }, () => ModelServer.start()))
  const { log, lines } = logLines<Line>()
  const clock = { ms: 0 }
  const settings = aiSettings({
    AI_UPSTREAM_URL: servers.map(({ url }) => url).join(),
    AI_CONCURRENCY: String(own.slots ?? 8),
  })
  const { processes = 1, waitMs = 20_000, waitingPerAccount, times = {} } = own
  const model = openLanguageModel(settings, {
    processes,
    log,
    times: { ...upstreamTimes, ...times },
    slots: { waitMs, now: () => clock.ms, ...(waitingPerAccount && { waitingPerAccount }) },
  })
  t.teardown(async () => {
    await model.close()
    await Promise.all(servers.map(server => server.stop()))
  })
  for (const [n, server] of servers.entries()) server.otherwise = { text: `from ${n + 1}` }
  const ask = (account = 'ana', signal?: AbortSignal) => model.complete(request(), options(signal, account))
  const asked = () => servers.map(server => server.requests.length)
  return { servers, model, ask, asked, lines, clock, first: servers[0]!, second: servers[1]! }
}

/** A call that is not answered until its caller leaves. */
function heldCall(ask: (account: string, signal: AbortSignal) => Promise<unknown>, account: string) {
  const caller = new AbortController()
  const call = ask(account, caller.signal).catch(({ reason }) => reason)
  return () => {
    caller.abort()
    return call
  }
}

const held: ModelScript = { silentAfter: 0 }

test('the first upstream answers while it works', async t => {
  const { ask, asked } = await scene(t, 2)
  for (let n = 0; n < 3; n++) t.is((await ask()).content, 'from 1')
  t.deepEqual(asked(), [3, 0])
})

for (const [what, script, reason] of [
  ['is cut before its status', { cutAfter: 0 }, 'unreachable'],
  ['is cut before its first piece', { cutAfter: 1 }, 'broken'],
  ['begins too late', { silentAfter: 1 }, 'late'],
  ['has too much to do', { status: 429 }, 'busy'],
  ['was too slow for itself', { status: 408 }, 'busy'],
  ['fails', { status: 500 }, 'busy'],
  ['does not know the key', { status: 401 }, 'misconfigured'],
  ['does not know the model', { status: 404 }, 'misconfigured'],
  ['redirects', { status: 307, headers: { location: '/v1/chat/completions' } }, 'misconfigured'],
] as [string, ModelScript, string][])
  test(`the next upstream answers where one ${what}`, async t => {
    const { ask, asked, first, lines } = await scene(t, 3, { times: { firstPieceMs: 2000 } })
    first.next(script)
    t.is((await ask()).content, 'from 2')
    t.deepEqual(asked(), [1, 1, 0])
    t.like(lines, {
      length: 2,
      0: { upstream: 1, reason, requestId: 'request-1' },
      1: { upstream: 2, reason: 'answered' },
    })
    t.is(lines[0]!.level, reason === 'misconfigured' ? 50 : 40)
  })

test('the next upstream answers where nothing listens', async t => {
  const { ask, first, lines } = await scene(t, 2)
  await first.stop()
  t.is((await ask()).content, 'from 2')
  t.like(lines[0], { reason: 'unreachable', code: 'ECONNREFUSED' })
})

test('no second upstream is asked once an answer has begun, or the request is refused', async t => {
  const { ask, asked, first } = await scene(t, 2, { times: { silenceMs: 200 } })
  first.next({ text: ['one', 'two'], cutAfter: 2 }, { status: 400 }, { text: ['one', 'two'], silentAfter: 2 })
  t.is((await failureOf(t, ask())).generated?.completion, 1)
  t.is((await failureOf(t, ask())).reason, 'refused')
  t.is((await failureOf(t, ask())).generated?.completion, 1)
  t.deepEqual(asked(), [3, 0])
})

test('each upstream is asked once', async t => {
  const { ask, asked, servers, lines } = await scene(t, 3)
  for (const server of servers) server.otherwise = { status: 503 }
  const { reason, generated } = await failureOf(t, ask())
  t.deepEqual({ reason, generated }, { reason: 'unavailable', generated: undefined })
  t.deepEqual(asked(), [1, 1, 1])
  t.is(lines.at(-1)!.reason, 'all_failed')
})

test('an upstream that keeps failing is skipped, then one request finds out whether it works', async t => {
  const { ask, asked, first, clock } = await scene(t, 2)
  first.otherwise = { status: 500 }
  for (const account of ['ana', 'bo', 'ana']) await ask(account)
  t.deepEqual(asked(), [3, 3])
  await ask()
  t.deepEqual(asked(), [3, 4], 'skipped')
  clock.ms += 9_999
  await ask()
  t.deepEqual(asked(), [3, 5])
  clock.ms += 1
  let fail = () => {}
  first.otherwise = { status: 500, after: new Promise<void>(resolve => (fail = resolve)) }
  const trial = ask()
  await first.received(4)
  await Promise.all(Array.from({ length: 5 }, () => ask('bo')))
  t.deepEqual(asked(), [4, 10], 'one trial, while others go elsewhere')
  fail()
  t.is((await trial).content, 'from 2')
  clock.ms += 10_000
  first.otherwise = { text: 'from 1 again' }
  t.is((await ask()).content, 'from 1 again')
  t.is((await ask()).content, 'from 1 again')
})

test('a trial whose caller leaves is followed by another', async t => {
  const { ask, first, clock } = await scene(t, 1)
  first.otherwise = { cutAfter: 0 }
  for (let n = 0; n < 3; n++) await failureOf(t, ask())
  t.is((await failureOf(t, ask())).reason, 'unavailable')
  t.is(first.requests.length, 3)
  clock.ms += 10_000
  first.otherwise = { silentAfter: 0 }
  const caller = new AbortController()
  const trial = failureOf(t, ask('ana', caller.signal))
  await first.received(4)
  caller.abort()
  t.is((await trial).reason, 'aborted')
  first.otherwise = {}
  t.is((await ask()).content, 'Hello!')
})

test('requests of one account that an upstream fails at take it from no other account', async t => {
  const { ask, first } = await scene(t, 1)
  first.otherwise = { status: 500 }
  for (let n = 0; n < 10; n++) await failureOf(t, ask('ana'))
  first.otherwise = {}
  t.is((await ask('bo')).content, 'Hello!')
})

test('callers that leave, and requests that are refused, are no failures of an upstream', async t => {
  const { ask, first } = await scene(t, 1)
  for (const account of ['ana', 'bo', 'cy', 'di']) {
    first.next({ status: 400 })
    t.is((await failureOf(t, ask(account))).reason, 'refused')
    const caller = new AbortController()
    first.next({ silentAfter: 1 })
    const call = failureOf(t, ask(account, caller.signal))
    await first.received(first.requests.length + 1)
    caller.abort()
    t.is((await call).reason, 'aborted')
  }
  t.is((await ask()).content, 'from 1')
})

test('a full upstream is passed over, and no upstream gets more calls than it has slots', async t => {
  const { ask, asked, servers } = await scene(t, 2, { slots: 4, processes: 2 })
  for (const server of servers) server.otherwise = { text: Array(10).fill('x'), everyMs: 5 }
  const accounts = ['ana', 'bo', 'cy', 'di', 'ed', 'fe', 'gu', 'hu']
  await Promise.all(accounts.map(account => ask(account)))
  t.deepEqual(
    servers.map(({ mostOpen }) => mostOpen),
    [2, 2],
  )
  t.is(asked()[0]! + asked()[1]!, 8)
})

test('a call that gets no slot in time is unavailable, and is sent nowhere', async t => {
  const { ask, asked, first, lines } = await scene(t, 1, { slots: 1, waitMs: 50 })
  first.otherwise = held
  const leave = heldCall(ask, 'ana')
  await first.received(1)
  t.is((await failureOf(t, ask('bo'))).reason, 'unavailable')
  t.is(lines[0]!.reason, 'no_slot')
  t.deepEqual(asked(), [1])
  await leave()
})

test('a caller that leaves while it waits takes no slot', async t => {
  const { ask, asked, first } = await scene(t, 1, { slots: 1 })
  first.otherwise = held
  const leave = heldCall(ask, 'ana')
  await first.received(1)
  const caller = new AbortController()
  const waiting = failureOf(t, ask('bo', caller.signal))
  caller.abort()
  t.is((await waiting).reason, 'aborted')
  await leave()
  first.otherwise = {}
  t.is((await ask('cy')).content, 'Hello!')
  t.deepEqual(asked(), [2])
})

test('slow calls of one account leave slots for the next, and its queue is bounded', async t => {
  const { model, first } = await scene(t, 1, { slots: 4, waitingPerAccount: 3 })
  const caller = new AbortController()
  first.otherwise = ({ body }) =>
    body.messages[0].content === 'slow' ? { text: Array(1000).fill('x'), everyMs: 100 } : {}
  const slow = request({ messages: [{ role: 'user', content: 'slow' }] })
  const calls = Array.from({ length: 7 }, () =>
    model.complete(slow, options(caller.signal, 'ana')).catch(({ reason }) => reason),
  )
  await first.received(2)
  t.deepEqual(await Promise.race(calls.slice(5)), 'unavailable', 'beyond three that wait')
  for (let n = 0; n < 3; n++)
    t.is((await model.complete(request(), options(undefined, 'bo'))).content, 'Hello!', 'others do not wait')
  t.is(first.requests.length, 5, 'two of the slow ones only')
  caller.abort()
  t.deepEqual((await Promise.all(calls)).sort(), [...Array(5).fill('aborted'), 'unavailable', 'unavailable'])
})

test('a call that waits goes to whichever upstream gets a slot', async t => {
  const { ask, servers, second } = await scene(t, 2, { slots: 1 })
  for (const server of servers) server.otherwise = held
  const leave = ['ana', 'bo'].map(account => heldCall(ask, account))
  await Promise.all(servers.map(server => server.received(1)))
  second.otherwise = { text: 'from 2' }
  const waiting = ask('cy')
  await leave[1]!()
  t.is((await waiting).content, 'from 2')
  await leave[0]!()
})

test('without upstreams every call is unavailable', async t => {
  const { log } = logLines()
  const model = openLanguageModel(aiSettings({}), { processes: 1, log })
  t.is((await failureOf(t, model.complete(request(), options()))).reason, 'unavailable')
  await model.close()
})
