import test from 'ava'
import { admitCall } from '../../db/ai/ai-calls.ts'
import { newId } from '../../policy/ids.ts'
import { hello } from '../kit/actors/chat-api.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { ModelServer } from '../kit/servers/model-server.ts'

const started = testPlatform()
let server: ModelServer

test.serial.before('a model', async () => {
  server = await ModelServer.start()
})
test.after.always('end it', () => server?.stop())

const ask = (url: string, key: string) =>
  fetch(`${url}/v2/ai/chat/completions`, {
    method: 'POST',
    headers: { authorization: key },
    body: JSON.stringify(hello),
  })

test.serial(
  'an API that is killed with calls in flight ends them at the model, and their slots end within 95 s',
  async t => {
    t.timeout(120_000)
    const platform = await started
    const { db, api } = platform
    const settings = { AI_UPSTREAM_URL: server.url, AI_UPSTREAM_MODEL: 'scripted' }
    const users = await Promise.all(Array.from({ length: 10 }, () => api.makeUser({ plan: 'standard-4' })))
    const dying = await platform.startApiProcess(settings)
    server.otherwise = { text: ['Once ', 'upon '], silentAfter: 2 }
    const cut = users.map(user => t.throwsAsync(ask(dying.url, user.key)))
    await server.received(10)
    await dying.api.kill('SIGKILL')
    await Promise.all(cut)
    for (const request of server.requests) t.is(await request.outcome, 'aborted')

    server.reset()
    const next = await platform.startApiProcess(settings)
    const calls = await db('ai_calls').whereIn(
      'user_id',
      users.map(user => user.id),
    )
    t.is(calls.length, 10)
    for (const call of calls) t.is(call.ends_at.getTime() - call.started_at.getTime(), 95_000)
    const refused = await ask(next.url, users[0]!.key)
    t.deepEqual(
      [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
      [429, 'concurrent_limit_reached'],
    )
    t.is((await ask(next.url, (await api.makeUser({ plan: 'standard-4' })).key)).status, 200)
    // As 95 s later.
    for (const { user_id: userId, ends_at } of calls) {
      const call = { id: newId(), userId, keyId: null, tokens: { prompt: 1, answer: 20 }, slots: 1, pacingSeconds: 4 }
      const budgets = { account: 500_000, key: null, platform: null }
      t.deepEqual(await admitCall(db, { ...call, budgets }, new Date(ends_at.getTime() + 1)), { granted: 20 })
    }
    await next.api.kill('SIGTERM')
  },
)

test.serial('an API that is to end answers the calls in flight, or has their callers try again', async t => {
  t.timeout(120_000)
  const platform = await started
  const { db, api } = platform
  const ending = await platform.startApiProcess({ AI_UPSTREAM_URL: server.url, AI_UPSTREAM_MODEL: 'scripted' })
  const [ana, ben] = [await api.makeUser({ plan: 'standard-4' }), await api.makeUser({ plan: 'standard-4' })]
  server.reset()
  server.next({ headersAfterMs: 1500 }, { silentAfter: 0 })
  const answered = ask(ending.url, ana.key)
  await server.received(1)
  const refused = ask(ending.url, ben.key)
  await server.received(2)
  const ended = ending.api.kill('SIGTERM')
  t.is((await answered).status, 200)
  const { status, headers } = await refused
  t.deepEqual([status, headers.get('retry-after')], [503, '1'])
  await ended
  t.deepEqual(await db('ai_calls').whereIn('user_id', [ana.id, ben.id]), [])
})
