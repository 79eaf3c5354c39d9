import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { openChatCalls } from '../../../workers/adapters/chat-calls.ts'
import { testApi } from '../../kit/actors/api.ts'
import { chat, hello } from '../../kit/actors/chat-api.ts'
import { log } from '../../kit/platform/platform.ts'
import { ModelServer, toolCall } from '../../kit/servers/model-server.ts'
import { type Origin, startOrigin } from '../../kit/servers/origin.ts'

let model: ModelServer
let helper: Origin
/** What the server of exact numbers answers, and what was searched for. */
let count = 7
const searched: string[] = []

test.serial.before('a model, a tokenizer and a web search', async () => {
  model = await ModelServer.start()
  helper = await startOrigin((request, response) => {
    const url = new URL(request.url ?? '', 'http://x')
    request.resume()
    response.setHeader('content-type', 'application/json')
    if (url.pathname === '/tokenize') return response.end(JSON.stringify({ count }))
    searched.push(url.searchParams.get('q') ?? '')
    return response.end(
      JSON.stringify({ results: [{ title: 'Porto', url: 'https://x.example', content: '25 degrees' }] }),
    )
  })
})
const api = testApi({
  services: ({ db }) => ({
    chatCalls: openChatCalls(
      parseConfig(
        {
          AI_UPSTREAM_URL: model.url,
          AI_UPSTREAM_MODEL: 'scripted',
          AI_DAILY_TOKENS: '400000',
          AI_SEARCH_URL: `http://127.0.0.1:${helper.port}`,
          AI_TOKENIZE_URL: `http://127.0.0.1:${helper.port}/tokenize`,
        },
        '/',
      ),
      db,
      log,
    ),
  }),
})
test.beforeEach(() => {
  model.reset()
  count = 7
})
test.after.always('end them', async () => {
  await api()?.services.chatCalls.end(0)
  await Promise.all([model?.stop(), helper?.stop()])
})

const asker = () => api().makeUser({ plan: 'enterprise-24' })

test.serial('the exact number of tokens decides, where there is one', async t => {
  const ana = await asker()
  count = 32_769
  const refused = await chat(api(), ana)
  t.is(refused.body.error.code, 'context_length_exceeded')
  t.regex(refused.body.error.message, /about 32769 tokens/)
  count = 32_768
  t.is((await chat(api(), ana)).status, 200)
})

test.serial(
  'a model may search before it answers; what that may cost is reserved, and what it costs is charged',
  async t => {
    const ana = await asker()
    const usage = { prompt: 100, completion: 10 }
    model.otherwise = () => ({ text: 'Sunny.', usage })
    const { db } = api()
    const reserved = model.received(1).then(() =>
      db('ai_calls')
        .where({ user_id: ana.id })
        .pluck('tokens')
        .then(each => each.map(Number)),
    )
    model.next({ after: reserved, toolCalls: [toolCall('web_search', { query: 'weather Porto' })], usage })
    const answer = await chat(api(), ana)
    // The prompt of 7 and an answer of 8,192; the offer of 75 tokens in three rounds; and in the second and the third the prompt again,
    // with one and two times an answer and 9,016 tokens of what was found.
    t.deepEqual(await reserved, [7 + 8192 + (3 * 75 + 2 * 7 + 3 * (8192 + 9016))])
    t.deepEqual(searched, ['weather Porto'])
    t.is(answer.body.choices[0].message.content, 'Sunny.')
    t.like(answer.body.usage, { prompt_tokens: 200, completion_tokens: 20 })
    for (const subject of [`user/${ana.id}`])
      t.like(await api().db('ai_budgets').where({ subject }).first(), { tokens: '220' })
    t.truthy(await api().db('ai_budgets').where({ subject: 'platform' }).first(), 'the platform has a budget')
  },
)

test.serial('a call that does not fit with its searches is admitted without them', async t => {
  const ana = await asker()
  const limited = await api().makeKey(ana, { scopes: ['ai:chat'] })
  await api().db('api_keys').where({ id: limited.id }).update({ ai_tokens_per_day: 20_000 })
  t.is((await chat(api(), limited.key)).status, 200)
  t.is(model.requests.at(-1)!.body.tools, undefined)
  t.is((await chat(api(), ana)).status, 200)
  t.is(model.requests.at(-1)!.body.tools[0].function.name, 'web_search')
})

test.serial('a call is admitted without its searches where others in progress hold what they may bring', async t => {
  const ana = await asker()
  const limited = await api().makeKey(ana, { scopes: ['ai:chat'] })
  await api().db('api_keys').where({ id: limited.id }).update({ ai_tokens_per_day: 70_000 })
  let end = () => {}
  model.next({ after: new Promise<void>(resolve => (end = resolve)) })
  const first = chat(api(), limited.key)
  await model.received(1)
  t.is((await chat(api(), limited.key)).status, 200)
  t.is(model.requests[1]!.body.tools, undefined)
  t.is(model.requests[0]!.body.tools[0].function.name, 'web_search')
  end()
  t.is((await first).status, 200)
})

test.serial('searches never make an answer shorter', async t => {
  const ana = await asker()
  const limited = await api().makeKey(ana, { scopes: ['ai:chat'] })
  await api().db('api_keys').where({ id: limited.id }).update({ ai_tokens_per_day: 60_000 })
  t.is((await chat(api(), limited.key)).status, 200)
  const { tools, max_tokens } = model.requests[0]!.body
  t.deepEqual([tools, max_tokens], [undefined, 8192])
  t.like(await api().db('ai_days').where({ key_id: limited.id }).first(), { requests: '1' }, 'and one call was made')
})

test.serial('the budget of the platform is that of the setting', async t => {
  const { db } = api()
  const today = db.raw(`(now() at time zone 'UTC')::date`)
  await db('ai_budgets')
    .where({ subject: 'platform' })
    .update({ tokens: 400_000 - 7 - 15, day: today })
  const refused = await chat(api(), await asker(), { ...hello, max_tokens: 100 })
  t.is(refused.body.error.code, 'daily_capacity_reached')
  await db('ai_budgets')
    .where({ subject: 'platform' })
    .update({ tokens: 400_000 - 7 - 16 })
  t.is((await chat(api(), await asker(), { ...hello, max_tokens: 100 })).status, 200)
})
