import test from 'ava'
import { chat, hello, testChatApi } from '../../../kit/actors/chat-api.ts'
import { toolCall } from '../../../kit/servers/model-server.ts'

const { api, server } = testChatApi()

test.beforeEach(() => server().reset())

const asker = () => api().makeUser({ plan: 'enterprise-24' })

const weather = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }

test.serial('an answer has the form of the format, and reports the model cubic', async t => {
  const answer = await chat(api(), await asker())
  t.is(answer.status, 200)
  const { id, created, ...rest } = answer.body
  t.regex(id, /^chatcmpl-[0-9a-f]{24}$/)
  t.true(Math.abs(created - Date.now() / 1000) < 60 && Number.isInteger(created))
  t.deepEqual(rest, {
    object: 'chat.completion',
    model: 'cubic',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello!' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
  })
  t.regex(answer.headers.get('content-type') ?? '', /^application\/json/)
  t.truthy(answer.headers.get('x-request-id'))
})

test.serial('only known fields reach the model, with our model, as a stream, and the ceiling of the plan', async t => {
  const body = {
    ...hello,
    temperature: 0.5,
    user: 'x',
    logit_bias: {},
    n: 7,
    store: true,
    messages: [{ ...hello.messages[0], name: 'Ana', extra: 1 }],
  }
  t.is((await chat(api(), await asker(), body)).status, 200)
  t.deepEqual(server().requests[0]!.body, {
    model: 'scripted',
    messages: hello.messages,
    temperature: 0.5,
    max_tokens: 8192,
    stream: true,
    stream_options: { include_usage: true },
  })
})

test.serial('max_tokens is clamped silently, and max_completion_tokens is read when it is missing', async t => {
  for (const [fields, sent] of [
    [{ max_tokens: 50 }, 50],
    [{ max_tokens: 1e9 }, 8192],
    [{ max_completion_tokens: 60 }, 60],
    [{ max_tokens: 50, max_completion_tokens: 60 }, 50],
    [{ max_tokens: null, max_completion_tokens: null }, 8192],
  ] as const) {
    t.is((await chat(api(), await asker(), { ...hello, ...fields })).status, 200)
    t.is(server().requests.at(-1)!.body.max_tokens, sent)
  }
})

test.serial('a call of a tool is answered, and its result continues the conversation', async t => {
  const ana = await asker()
  const call = toolCall('weather', { city: 'Porto' })
  server().next({ toolCalls: [call] }, { text: 'Sunny.' })
  const first = await chat(api(), ana, { ...hello, tools: [weather], tool_choice: 'auto' })
  t.deepEqual(first.body.choices[0], {
    index: 0,
    message: { role: 'assistant', content: null, tool_calls: [call] },
    finish_reason: 'tool_calls',
  })
  const messages = [
    ...hello.messages,
    first.body.choices[0].message,
    { role: 'tool', tool_call_id: call.id, content: '25 °C' },
  ]
  const second = await chat(api(), ana, { ...hello, messages, tools: [weather] })
  t.is(second.body.choices[0].message.content, 'Sunny.')
  t.deepEqual(server().requests[1]!.body.messages, messages)
  t.deepEqual(server().requests[0]!.body.tools, [weather])
})

test.serial(
  'an answer of a model may be sent back, also with names that callers may not choose, or with no calls',
  async t => {
    const ana = await asker()
    server().next({ toolCalls: [toolCall('functions.weather:0', {})] })
    const { message } = (await chat(api(), ana)).body.choices[0]
    const messages = [
      ...hello.messages,
      { ...message, refusal: null, audio: null, annotations: [] },
      { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'x' },
      { role: 'assistant', content: 'done', tool_calls: [] },
      ...hello.messages,
    ]
    t.is((await chat(api(), ana, { messages })).status, 200)
    t.false('tool_calls' in server().requests[1]!.body.messages[3])
    const none = await chat(api(), ana, { messages: [{ role: 'assistant', content: null, tool_calls: [] }] })
    t.is(none.body.error.code, 'invalid_messages')
  },
)

test.serial('an answer that was cut off says stop, and a header why', async t => {
  server().next({ finish: 'length' })
  const answer = await chat(api(), await asker())
  t.is(answer.body.choices[0].finish_reason, 'stop')
  t.is(answer.headers.get('x-finish-reason'), 'length')
  t.is((await chat(api(), await asker())).headers.get('x-finish-reason'), null)
})

/** Each wrong field with its code; the message says where. */
const wrong: [fields: object, code: string, place: RegExp][] = [
  [{ stream: true }, 'stream_not_supported', /stream/],
  [{ stream: 1 }, 'stream_not_supported', /stream/],
  [{ messages: undefined }, 'invalid_messages', /^messages: it must be an array/],
  [{ messages: [] }, 'invalid_messages', /^messages: there must be at least 1/],
  [{ messages: Array(101).fill(hello.messages[0]) }, 'invalid_messages', /^messages: there may be at most 100/],
  [{ messages: [{ role: 'developer', content: 'x' }] }, 'invalid_messages', /^messages\.0\.role/],
  [
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] },
    'invalid_messages',
    /^messages\.0\.content/,
  ],
  [{ messages: [{ role: 'user', content: null }] }, 'invalid_messages', /^messages\.0\.content/],
  [{ messages: [...hello.messages, { role: 'assistant' }] }, 'invalid_messages', /^messages\.1: content may be null/],
  [{ messages: [{ role: 'tool', content: 'x' }] }, 'invalid_messages', /^messages\.0\.tool_call_id/],
  [
    { messages: [{ role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'x' }] }] },
    'invalid_messages',
    /tool_calls\.0/,
  ],
  [
    { messages: [{ role: 'tool', content: 'x', tool_call_id: 'x'.repeat(257) }] },
    'invalid_messages',
    /^messages\.0\.tool_call_id: it must have at most 256 characters/,
  ],
  [
    { messages: [{ role: 'assistant', tool_calls: [toolCall('f', {}, 'x'.repeat(257))] }] },
    'invalid_messages',
    /^messages\.0\.tool_calls\.0\.id: it must have at most 256 characters/,
  ],
  [{ messages: [{ role: 'user', content: 'a\u0000' }] }, 'invalid_messages', /^messages\.0\.content/],
  [{ messages: [{ role: 'user', content: '\ud800' }] }, 'invalid_messages', /^messages\.0\.content/],
  [
    { messages: [{ role: 'assistant', tool_calls: Array(129).fill(toolCall('f')) }] },
    'invalid_messages',
    /tool_calls: there may be at most 128/,
  ],
  [{ messages: [{ role: 'assistant', tool_calls: Array(15_000).fill({}) }] }, 'invalid_messages', /at most 128/],
  [{ tools: 'x' }, 'invalid_tools', /^tools/],
  [
    { tools: Array.from({ length: 33 }, (_, n) => ({ type: 'function', function: { name: `f${n}` } })) },
    'invalid_tools',
    /at most 32/,
  ],
  [{ tools: [{ type: 'function', function: { name: 'with space' } }] }, 'invalid_tools', /^tools\.0\.function\.name/],
  [{ tools: [{ type: 'function', function: { name: 'n'.repeat(65) } }] }, 'invalid_tools', /^tools\.0\.function\.name/],
  [{ tools: [weather, weather] }, 'invalid_tools', /two functions have the name weather/],
  [{ tools: [{ type: 'function', function: { name: 'f', parameters: [] } }] }, 'invalid_tools', /parameters/],
  [
    { tools: [{ type: 'function', function: { name: 'f', parameters: { a: '\u0000' } } }] },
    'invalid_tools',
    /parameters/,
  ],
  [{ tool_choice: 'required' }, 'invalid_tool_choice', /needs tools/],
  [{ tool_choice: 'some' }, 'invalid_tool_choice', /none, auto, required/],
  [{ tools: [weather], tool_choice: { type: 'function', function: { name: 'g' } } }, 'invalid_tool_choice', /name g/],
  [{ temperature: 2.1 }, 'invalid_temperature', /at most 2/],
  [{ temperature: -0.1 }, 'invalid_temperature', /at least 0/],
  [{ temperature: '1' }, 'invalid_temperature', /a number/],
  [{ max_tokens: 0 }, 'invalid_max_tokens', /at least 1/],
  [{ max_tokens: 1.5 }, 'invalid_max_tokens', /whole number/],
  [{ max_completion_tokens: '9' }, 'invalid_max_tokens', /^max_completion_tokens/],
]

test.serial('the most of everything is accepted', async t => {
  const [longest, id] = ['n'.repeat(64), 'i'.repeat(256)]
  const most: object[] = [
    { messages: Array(100).fill(hello.messages[0]) },
    { messages: [{ role: 'assistant', content: null, tool_calls: Array(128).fill(toolCall('f', {}, id)) }] },
    { messages: [...hello.messages, { role: 'tool', content: 'x', tool_call_id: id }] },
    { tools: Array.from({ length: 32 }, (_, n) => ({ type: 'function', function: { name: `f${n}` } })) },
    { tools: [{ type: 'function', function: { name: longest } }] },
    { temperature: 2 },
    { temperature: 0 },
    { max_tokens: 1 },
  ]
  for (const fields of most) {
    const { status, text } = await chat(api(), await asker(), { ...hello, ...fields })
    t.is(status, 200, `${Object.keys(fields)}: ${text}`)
  }
})

test.serial('every wrong field has its code, and its refusal costs nothing', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  for (const [fields, code, place] of wrong) {
    const answer = await chat(api(), ana, { ...hello, ...fields })
    t.is(answer.status, 400, code)
    t.deepEqual(Object.keys(answer.body), ['error'])
    t.deepEqual({ ...answer.body.error, message: '' }, { message: '', type: 'invalid_request_error', code })
    t.regex(answer.body.error.message, place)
  }
  t.is(server().requests.length, 0)
  t.is((await chat(api(), ana)).status, 200, 'no pacing was taken')
})

test.serial('of several wrong fields the first in the order of the contract is reported', async t => {
  const ana = await asker()
  const all = { stream: true, messages: [], tools: 'x', tool_choice: 'x', temperature: 9, max_tokens: 0 }
  const codes: string[] = []
  for (const name of ['stream', 'messages', 'tools', 'tool_choice', 'temperature', 'max_tokens']) {
    codes.push((await chat(api(), ana, all)).body.error.code)
    Object.assign(all, { ...hello, stream: false, [name]: name === 'messages' ? hello.messages : undefined })
    for (const field of ['messages', 'tools', 'tool_choice', 'temperature', 'max_tokens'] as const)
      if (!codes.includes(`invalid_${field}`) && field !== name)
        Object.assign(all, {
          [field]: { messages: [], tools: 'x', tool_choice: 'x', temperature: 9, max_tokens: 0 }[field],
        })
  }
  t.deepEqual(codes, [
    'stream_not_supported',
    'invalid_messages',
    'invalid_tools',
    'invalid_tool_choice',
    'invalid_temperature',
    'invalid_max_tokens',
  ])
})

test.serial('a body that is no JSON, too large or compressed has its code on this wire', async t => {
  const ana = await asker()
  const failed = async (body: string, headers: Record<string, string> = {}) => {
    const answer = await api().as(ana).post('/v2/ai/chat/completions', body, headers)
    return [answer.status, answer.body.error.code, answer.body.error.type]
  }
  t.deepEqual(await failed('{'), [400, 'invalid_json_body', 'invalid_request_error'])
  t.deepEqual(await failed('[]'), [400, 'invalid_json_body', 'invalid_request_error'])
  t.deepEqual(await failed('{}', { 'content-encoding': 'gzip' }), [400, 'invalid_json_body', 'invalid_request_error'])
  const large = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(2 * 1024 * 1024) }] })
  t.deepEqual(await failed(large), [413, 'payload_too_large', 'invalid_request_error'])
})

test.serial('messages and tools above the window of the plan are refused, and a character less is not', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const ofTokens = (tokens: number) => ({
    messages: [{ role: 'user', content: '字'.repeat(Math.floor((tokens - 4) / 0.6)) }],
  })
  const refused = await chat(api(), ana, ofTokens(16_386))
  t.deepEqual([refused.status, refused.body.error.code], [400, 'context_length_exceeded'])
  t.regex(refused.body.error.message, /about 1638\d tokens; your plan allows 16384/)
  t.is((await chat(api(), ana, ofTokens(16_383))).status, 200)
})

test.serial('credentials, scopes and plans are refused on this wire', async t => {
  const ana = await asker()
  const { key: reader } = await api().makeKey(ana, { scopes: ['apps:read'] })
  const { key: limited } = await api().makeKey(ana, { scopes: ['ai:chat'], resources: ['a'.repeat(24)] })
  const hobby = await api().makeUser({ plan: 'hobby-1' })
  const none = await api().makeUser({ plan: 'free' })
  for (const [who, status, code] of [
    [undefined, 401, 'access_denied'],
    ['x'.repeat(64), 401, 'access_denied'],
    [reader, 403, 'missing_scope'],
    [limited, 403, 'resource_not_allowed'],
    [hobby, 403, 'upgrade_required'],
    [none, 403, 'upgrade_required'],
  ] as const) {
    const answer = await chat(api(), who)
    t.deepEqual([answer.status, answer.body.error.code, answer.body.error.type], [status, code, 'authentication_error'])
  }
  const { key } = await api().makeKey(ana, { scopes: ['ai:chat'] })
  t.is((await chat(api(), key)).status, 200)
  t.is((await chat(api(), ana.session)).status, 200)
})

test.serial('an unknown route below the gateway is not_found in its form', async t => {
  for (const path of ['/v2/ai', '/v2/ai/', '/v2/ai/embeddings', '/v2/ai/chat/completions/x']) {
    const answer = await api()
      .as(await asker())
      .post(path, '{}')
    t.deepEqual([answer.status, answer.body.error?.code], [404, 'not_found'], path)
  }
  const other = await api()
    .as(await asker())
    .post('/v2/aims', '{}')
  t.deepEqual([other.status, other.body.code], [404, 'ROUTE_NOT_FOUND'])
})

test.serial('an answer is no entry of the audit record', async t => {
  const ana = await asker()
  t.is((await chat(api(), ana)).status, 200)
  t.deepEqual(await api().db('audit').where({ actor: ana.id }), [])
})
