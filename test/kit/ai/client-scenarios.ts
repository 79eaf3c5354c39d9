import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { type TestUser, testApi } from '../actors/api.ts'
import { testChatApi } from '../actors/chat-api.ts'
import { comesTrue } from '../comes-true.ts'
import { toolCall } from '../servers/model-server.ts'
import type { Access, OpenAiClient } from './openai-client.ts'

const question = { role: 'user', content: 'Hello?' }
const dayMs = 86_400_000
const hello = { model: 'cubic', messages: [question] }
const weather = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'The weather in a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

/** Call it once at the top level of a test file: the gateway before a scripted model, and what counts the tries of a client. */
export function testGateway() {
  const { api, server } = testChatApi()
  const withoutModel = testApi()
  let requests = 0
  let refusals = 0
  const count = (_: unknown, response: ServerResponse) => {
    requests++
    response.once('finish', () => {
      if (response.statusCode === 429) refusals++
    })
  }
  test.beforeEach(() => {
    server().reset()
    requests = 0
    refusals = 0
    for (const each of [api(), withoutModel()]) each.server.off('request', count).on('request', count)
  })
  const accessOf = (who: TestUser | string, base = api().url): Access => ({
    baseUrl: `${base}/v2/ai`,
    apiKey: typeof who === 'string' ? who : who.key,
  })
  return {
    api,
    server,
    withoutModel,
    /** Requests that have reached the gateway in this test. */
    tries: () => requests,
    /** Those of them that were to wait. */
    refused: () => refusals,
    accessOf,
    /** Someone whose plan has a slot, and a pause of two seconds between calls. */
    async ana() {
      const user = await api().makeUser({ plan: 'pro-12' })
      return { user, access: accessOf(user) }
    },
  }
}

type Gateway = ReturnType<typeof testGateway>

/** What every official client does unchanged, as tests of the file that calls it. */
export function testScenarios(name: string, client: OpenAiClient, gateway: Gateway): void {
  const { api, server, withoutModel, tries, refused, accessOf, ana } = gateway
  const scenario = (title: string, run: (t: ExecutionContext) => Promise<void>) => test.serial(`${name}: ${title}`, run)

  scenario('a completion has its text, its reason to finish and its usage', async t => {
    const { access } = await ana()
    server().next({ text: 'Hello!', usage: { prompt: 9, completion: 3 } })
    const { answer, requestId } = await client.complete(access, { ...hello, temperature: 0, max_completion_tokens: 50 })
    t.regex(answer.id, /^chatcmpl-[0-9a-f]{24}$/)
    t.is(answer.object, 'chat.completion')
    t.true(Math.abs(answer.created - Date.now() / 1000) < 60)
    t.is(answer.model, 'cubic')
    t.is(answer.choices.length, 1)
    const [{ index, finish_reason, message }] = answer.choices
    t.deepEqual([index, finish_reason, message.role, message.content], [0, 'stop', 'assistant', 'Hello!'])
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage
    t.deepEqual([prompt_tokens, completion_tokens, total_tokens], [9, 3, 12])
    t.truthy(requestId, 'the client finds the number of the request')
    t.is(server().requests[0]!.body.max_tokens, 50)
    t.is(tries(), 1)
  })

  scenario('a model calls a tool, and continues with its result', async t => {
    const { access } = await ana()
    const call = toolCall('weather', { city: 'Porto' })
    server().next({ toolCalls: [call], toolForm: 'pieces' }, { text: 'Sunny.' })
    const body = { ...hello, tools: [weather], tool_choice: 'auto' }
    const { answer: first } = await client.complete(access, body)
    t.is(first.choices[0].finish_reason, 'tool_calls')
    const { message } = first.choices[0]
    t.is(message.content, null)
    const [{ id, type, function: called }] = message.tool_calls
    t.deepEqual({ id, type, name: called.name, arguments: called.arguments }, { id: call.id, type, ...call.function })
    // The message goes back as the client has it, with all fields that it knows.
    const messages = [question, message, { role: 'tool', tool_call_id: id, content: '25 °C' }]
    const { answer: second } = await client.complete(access, { ...body, messages })
    t.is(second.choices[0].message.content, 'Sunny.')
    t.is(second.choices[0].finish_reason, 'stop')
    t.deepEqual(server().requests[1]!.body.messages, [
      question,
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: call.id, content: '25 °C' },
    ])
  })

  scenario('the answer of a model continues the conversation as the client has it', async t => {
    const { access } = await ana()
    const { answer } = await client.complete(access, hello)
    const messages = [question, answer.choices[0].message, question]
    t.is((await client.complete(access, { ...hello, messages })).answer.choices[0].message.content, 'Hello!')
    t.deepEqual(server().requests[1]!.body.messages, [question, { role: 'assistant', content: 'Hello!' }, question])
  })

  scenario('the only model is listed, and found by its name', async t => {
    const { access } = await ana()
    const { answer: models } = await client.listModels(access)
    t.deepEqual(
      models.map((model: { id: string; object: string }) => [model.id, model.object]),
      [['cubic', 'model']],
    )
    const { answer: model } = await client.getModel(access, 'cubic')
    t.is(model.id, 'cubic')
    t.is(typeof model.owned_by, 'string')
    t.is(tries(), 2)
    const { error } = await client.getModel(access, 'gpt-9')
    t.deepEqual([error?.name, error?.status, error?.code], ['NotFoundError', 404, 'not_found'])
  })

  scenario('a stream is refused once', async t => {
    const { error } = await client.complete((await ana()).access, { ...hello, stream: true })
    t.deepEqual(
      [error?.name, error?.status, error?.code, error?.type],
      ['BadRequestError', 400, 'stream_not_supported', 'invalid_request_error'],
    )
    t.is(tries(), 1)
    t.is(server().requests.length, 0)
  })

  scenario('a wrong key and a plan without the gateway are refused once', async t => {
    const wrong = await client.complete(accessOf('not-a-key'), hello)
    t.deepEqual(
      [wrong.error?.name, wrong.error?.status, wrong.error?.code, wrong.error?.type],
      ['AuthenticationError', 401, 'access_denied', 'authentication_error'],
    )
    const hobby = await client.complete(accessOf(await api().makeUser({ plan: 'hobby-2' })), hello)
    t.deepEqual(
      [hobby.error?.name, hobby.error?.status, hobby.error?.code],
      ['PermissionDeniedError', 403, 'upgrade_required'],
    )
    t.is(tries(), 2)
  })

  scenario('a second call waits for the pacing, and its caller notices nothing', async t => {
    const { access } = await ana()
    t.is((await client.complete(access, hello)).answer.choices[0].message.content, 'Hello!')
    t.is(tries(), 1)
    const second = await client.complete(access, hello)
    t.is(second.answer?.choices[0].message.content, 'Hello!', JSON.stringify(second.error))
    t.true(tries() > 2, 'the second call was tried again')
    t.is(server().requests.length, 2)
  })

  scenario('a call for which no slot is free waits for one, and its caller notices nothing', async t => {
    const access = accessOf(await api().makeUser({ plan: 'enterprise-24' }))
    server().otherwise = { after: comesTrue(() => refused() > 0) }
    const outcomes = await Promise.all([1, 2, 3].map(() => client.complete(access, hello)))
    t.deepEqual(
      outcomes.map(({ answer, error }) => answer?.choices[0].message.content ?? error),
      ['Hello!', 'Hello!', 'Hello!'],
    )
    t.true(tries() > 3, 'one of them was tried again')
    t.is(server().requests.length, 3)
  })

  scenario('the end of a day is reported once', async t => {
    // In its last minute waiting would help.
    const left = dayMs - (Date.now() % dayMs)
    if (left < 70_000) await sleep(left)
    const { user, access } = await ana()
    await api().db.raw(
      `insert into ai_budgets (subject, day, tokens) values (?, (now() at time zone 'UTC')::date, 2000000)`,
      [`user/${user.id}`],
    )
    const { error } = await client.complete(access, hello)
    t.deepEqual(
      [error?.name, error?.status, error?.code, error?.type],
      ['RateLimitError', 429, 'daily_limit_reached', 'rate_limit_error'],
    )
    t.is(tries(), 1)
    t.is(server().requests.length, 0)
  })

  scenario('a block of the account is reported once', async t => {
    const { user, access } = await ana()
    const blocked = { key: `budget/${user.id}`, used: 0 }
    const [window_ends_at, blocked_until] = [60, 1800].map(seconds => new Date(Date.now() + seconds * 1000))
    await api()
      .db('rate_limits')
      .insert({ ...blocked, window_ends_at, blocked_until })
    const { error } = await client.complete(access, hello)
    t.deepEqual(
      [error?.name, error?.status, error?.code, error?.type],
      ['RateLimitError', 429, 'rate_limited', 'rate_limit_error'],
    )
    t.is(tries(), 1)
    t.is(server().requests.length, 0)
  })

  scenario('a model that is overloaded is tried again, and answers once it is back', async t => {
    const { access } = await ana()
    server().next({ status: 503 })
    const { answer, error } = await client.complete(access, hello)
    t.is(answer?.choices[0].message.content, 'Hello!', JSON.stringify(error))
    t.deepEqual([tries(), server().requests.length], [2, 2])
  })

  scenario('a platform without a model is tried once', async t => {
    const user = await withoutModel().makeUser({ plan: 'pro-12' })
    const { error } = await client.complete(accessOf(user, withoutModel().url), hello)
    t.deepEqual(
      [error?.name, error?.status, error?.code, error?.type],
      ['InternalServerError', 503, 'server_overloaded', 'server_error'],
    )
    t.is(tries(), 1)
  })

  scenario('a caller that leaves ends the work of the model, and its slot is free', async t => {
    const { user, access } = await ana()
    // Would be answered after 20 s.
    server().next({ text: Array<string>(400).fill(' and'), everyMs: 50 })
    await client.leave(access, hello, server().received(1))
    t.is(await server().requests[0]!.outcome, 'aborted')
    await comesTrue(async () => (await api().db('ai_calls').where({ user_id: user.id })).length === 0)
    const second = await client.complete(access, hello)
    t.is(second.answer?.choices[0].message.content, 'Hello!', JSON.stringify(second.error))
  })
}
