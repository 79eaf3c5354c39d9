import test from 'ava'
import { chat, hello, testChatApi } from '../../../kit/actors/chat-api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const { api, server } = testChatApi()

test.beforeEach(() => server().reset())

test.serial('there is one model, with the figures of the plan', async t => {
  for (const [plan, window, output] of [
    ['standard-4', 16_384, 4096],
    ['pro-12', 24_576, 6144],
    ['enterprise-24', 32_768, 8192],
  ] as const) {
    const ana = api().as(await api().makeUser({ plan }))
    const cubic = {
      id: 'cubic',
      object: 'model',
      created: 0,
      owned_by: 'berth',
      context_window: window,
      max_output_tokens: output,
    }
    t.deepEqual((await ana.get('/v2/ai/models')).body, { object: 'list', data: [cubic] })
    t.deepEqual((await ana.get('/v2/ai/models/cubic')).body, cubic)
  }
})

test.serial('another model is not_found, and a plan without the gateway sees none', async t => {
  const other = await api()
    .as(await api().makeUser({ plan: 'pro-12' }))
    .get('/v2/ai/models/gpt-9')
  t.deepEqual([other.status, other.body.error.code], [404, 'not_found'])
  const hobby = await api()
    .as(await api().makeUser({ plan: 'hobby-2' }))
    .get('/v2/ai/models')
  t.deepEqual([hobby.status, hobby.body.error.code], [403, 'upgrade_required'])
})

test.serial('usage has the tokens of today, and requests and refusals by day and key', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  server().otherwise = { usage: { prompt: 50, completion: 20 } }
  t.is((await chat(api(), ana)).status, 200)
  t.is((await chat(api(), ana)).body.error.code, 'rate_limit_exceeded')
  t.is((await chat(api(), ana)).body.error.code, 'rate_limit_exceeded')
  t.is((await chat(api(), ana, { ...hello, temperature: 7 })).body.error.code, 'invalid_temperature')
  const usage = async () => (await api().as(ana).get('/v2/ai/usage')).body
  // Refusals are counted after they were answered.
  await comesTrue(async () => Object.keys((await usage()).days[0].refusals).length === 2)
  const body = await usage()
  const today = new Date().toISOString().slice(0, 10)
  t.deepEqual(body, {
    object: 'usage',
    today: {
      account: { used: 70, limit: 2_000_000 },
      key: null,
      resets_at: new Date(Date.parse(today) + 86_400_000).toISOString(),
    },
    days: [
      {
        date: today,
        key_id: ana.keyId,
        requests: 1,
        prompt_tokens: 50,
        completion_tokens: 20,
        refusals: { rate_limit_exceeded: 2, invalid_temperature: 1 },
      },
    ],
  })
})

test.serial('a key without account:read sees its own days only, and its own limit', async t => {
  const ana = await api().makeUser({ plan: 'enterprise-24' })
  const one = await api().makeKey(ana, { scopes: ['ai:chat'] })
  await api().db('api_keys').where({ id: one.id }).update({ ai_tokens_per_day: 999 })
  t.is((await chat(api(), ana)).status, 200)
  t.is((await chat(api(), one.key)).status, 200)
  const usage = async (key: string) => (await api().as(key).get('/v2/ai/usage')).body
  const own = await usage(one.key)
  t.deepEqual(own.today.key, { used: 12, limit: 999 })
  t.deepEqual(own.today.account.used, 24)
  t.deepEqual(
    own.days.map((day: { key_id: string }) => day.key_id),
    [one.id],
  )
  t.is((await usage(ana.key)).days.length, 2)
})

test.serial('days are as many as requested, 30 by default and 90 at most', async t => {
  const ana = await api().makeUser({ plan: 'enterprise-24' })
  await api().db.raw(
    `insert into ai_days (user_id, key_id, day, requests)
     select ?, '', (now() at time zone 'UTC')::date - n, 1 from generate_series(0, 95) n`,
    [ana.id],
  )
  const count = async (query: string) => (await api().as(ana).get(`/v2/ai/usage${query}`)).body.days.length
  t.deepEqual([await count(''), await count('?days=1'), await count('?days=90')], [30, 1, 90])
  for (const days of ['0', '91', 'x']) t.is((await api().as(ana).get(`/v2/ai/usage?days=${days}`)).status, 400)
})
