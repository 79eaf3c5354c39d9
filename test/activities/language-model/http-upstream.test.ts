import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { openLanguageModel } from '../../../activities/language-model/select.ts'
import type { ChatRequest } from '../../../policy/ai/chat.ts'
import { estimateText, estimateTokens } from '../../../policy/ai/tokens.ts'
import { type UpstreamTimes, upstreamTimes } from '../../../policy/ai/upstreams.ts'
import { failureOf, languageModelContract, options, request } from '../../contracts/language-model.ts'
import { logSink } from '../../kit/log-sink.ts'
import { type ModelScript, ModelServer, toolCall } from '../../kit/servers/model-server.ts'

/** A model with one scripted upstream. */
async function scene(t: ExecutionContext, times: Partial<UpstreamTimes> = {}, own: Record<string, string> = {}) {
  const server = await ModelServer.start()
  const { log, text } = logSink()
  const model = openLanguageModel(server.settings(own), {
    processes: 1,
    log,
    times: { ...upstreamTimes, ...times },
    slots: { pauseMs: 0 }, // failures are what these tests are about
  })
  t.teardown(async () => {
    await model.close()
    await server.stop()
  })
  const ask = (script: ModelScript, chat: Partial<ChatRequest> = {}, signal?: AbortSignal) => {
    server.next(script)
    return model.complete(request(chat), options(signal))
  }
  return { server, model, ask, log: text }
}

languageModelContract(test, 'http', async t => {
  const { server, model } = await scene(t)
  return {
    model,
    answers: answer => server.next(answer),
    fails: how => server.next({ status: how === 'refused' ? 400 : 503 }),
    hangs: () => server.next({ text: ['a', 'b'], silentAfter: 2 }),
    received: count => server.received(count),
  }
})

const weather = [toolCall('weather', { city: 'São Paulo' }, 'call_1'), toolCall('time', {}, 'call_2')]

test('answers are the same however they arrive', async t => {
  const { ask } = await scene(t)
  const forms: ModelScript[] = [
    {},
    { json: true },
    { noise: true },
    { chunkBytes: 1 },
    { noise: true, chunkBytes: 3 },
    { done: false },
    { everyMs: 5 },
    { json: true, headers: { 'content-type': 'Application/JSON; charset=utf-8' } },
  ]
  const text = ['O', 'lá, 世', '界 🙂\n', '', 'fim']
  for (const form of forms) {
    const spoken = await ask({ ...form, text, usage: { prompt: 40, completion: 8 } })
    t.deepEqual(
      spoken,
      { content: text.join(''), toolCalls: [], finish: 'stop', usage: { prompt: 40, completion: 8 } },
      JSON.stringify(form),
    )
    for (const toolForm of ['whole', 'pieces'] as const) {
      const { toolCalls, content, finish } = await ask({ ...form, toolCalls: weather, toolForm })
      t.deepEqual({ toolCalls, content, finish }, { toolCalls: weather, content: null, finish: 'tool_calls' })
    }
  }
})

test('a text alongside calls of functions is part of the answer', async t => {
  const { ask } = await scene(t)
  const { content, finish } = await ask({ text: 'I look it up.', toolCalls: weather })
  t.deepEqual({ content, finish }, { content: 'I look it up.', finish: 'tool_calls' })
})

test('only named fields are sent, with the key, to the address below the base', async t => {
  const { server, ask } = await scene(t, {}, { AI_UPSTREAM_KEY: 'key-1', AI_MAX_TOKENS_FIELD: 'max_completion_tokens' })
  const tools = [{ type: 'function' as const, function: { name: 'weather' } }]
  await ask({}, { tools, toolChoice: 'required', temperature: 0, maxTokens: 7, extra: 1 } as Partial<ChatRequest>)
  const { path, headers, body } = server.requests[0]!
  t.is(path, '/v1/chat/completions')
  t.is(headers.authorization, 'Bearer key-1')
  t.deepEqual(body, {
    model: 'scripted',
    messages: request().messages,
    max_completion_tokens: 7,
    temperature: 0,
    tools,
    tool_choice: 'required',
    stream: true,
    stream_options: { include_usage: true },
  })
  await ask({}, { tools: [], toolChoice: 'none' })
  t.deepEqual(Object.keys(server.requests[1]!.body), [
    'model',
    'messages',
    'max_completion_tokens',
    'stream',
    'stream_options',
  ])
})

test('finish reasons are mapped to three values', async t => {
  const { ask } = await scene(t)
  for (const [finish, reported] of [
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'stop'],
    ['function_call', 'stop'],
    ['content_filter', 'stop'],
    ['eos', 'stop'],
  ] as const)
    t.is((await ask({ finish })).finish, reported, finish)
  t.is((await ask({ toolCalls: weather, finish: 'stop' })).finish, 'tool_calls', 'some servers never say so')
  t.is((await ask({ finish: null })).finish, 'stop', '[DONE] alone')
})

test('calls of functions get ids and arguments where a server leaves them out', async t => {
  const { ask } = await scene(t)
  const { toolCalls } = await ask({ toolCalls: weather, toolForm: 'without-ids' })
  t.is(new Set(toolCalls.map(({ id }) => id)).size, 2)
  for (const { id } of toolCalls) t.regex(id, /^call_[0-9a-f]{24}$/)
  const call = (delta: object) => ({ choices: [{ index: 0, delta: { tool_calls: [delta] } }] })
  const events = (...objects: object[]) => ({
    body: `${objects.map(object => `data: ${JSON.stringify(object)}\n\n`).join('')}data: [DONE]\n\n`,
  })
  const calls = async (...objects: object[]) =>
    (await ask(events(...objects))).toolCalls.map(({ function: { name, arguments: text } }) => [name, text])
  t.deepEqual(await calls(call({ index: 0, id: 'a', function: { name: 'now' } })), [['now', '{}']])
  t.deepEqual(
    await calls(call({ index: 0, id: 'a', function: { name: 'now', arguments: { zone: 'UTC' } } })),
    [['now', '{"zone":"UTC"}']],
    'parsed already',
  )
  const sameIndex = ['a', 'b'].map(id => call({ index: 0, id, function: { name: id, arguments: '{}' } }))
  t.deepEqual(
    await calls(...sameIndex),
    [
      ['a', '{}'],
      ['b', '{}'],
    ],
    'two calls with one number',
  )
  t.deepEqual(await calls(call({ index: 0, function: { arguments: '{}' } })), [], 'a call of nothing')
})

test('usage is the upstream’s, and the estimate where it gives none', async t => {
  const { ask } = await scene(t)
  const prompt = estimateTokens(request().messages)
  for (const form of [{}, { json: true }]) {
    const { usage } = await ask({ ...form, text: 'some words', usage: null })
    t.deepEqual(usage, { prompt, completion: estimateText('some words') })
  }
  t.deepEqual((await ask({ text: 'some words', usage: { prompt: 0, completion: 0 } })).usage, {
    prompt,
    completion: estimateText('some words'),
  })
  const thought = await ask({ reasoning: 'x'.repeat(1000), text: 'yes', usage: null })
  t.is(thought.content, 'yes')
  t.is(thought.usage.completion, estimateText(`${'x'.repeat(1000)}yes`), 'thoughts are paid for')
})

test('characters that callers cannot store are removed from an answer', async t => {
  const { ask } = await scene(t)
  const half = JSON.stringify({ choices: [{ delta: { content: '\ud83d' } }] })
  const other = JSON.stringify({ choices: [{ delta: { content: '\ude42\0\udc00' }, finish_reason: 'stop' }] })
  const { content } = await ask({ body: `data: ${half}\n\ndata: ${other}\n\n` })
  t.is(content, '🙂\ufffd')
})

test('a line that is cut before an answer begins costs nothing, and later what was generated', async t => {
  const { ask } = await scene(t)
  const text = ['one ', 'two ', 'three']
  for (const cutAfter of [0, 1]) {
    const { reason, generated } = await failureOf(t, ask({ text, cutAfter }))
    t.deepEqual({ reason, generated }, { reason: 'unavailable', generated: undefined }, `${cutAfter}`)
  }
  const { reason, generated } = await failureOf(t, ask({ text, cutAfter: 3 }))
  t.is(reason, 'unavailable')
  t.deepEqual(generated, { prompt: estimateTokens(request().messages), completion: estimateText('one two ') })
  const ended = await ask({ text, usage: null, done: false, cutAfter: 5 })
  t.is(ended.content, 'one two three', 'after its reason to finish an answer is complete')
  t.is((await failureOf(t, ask({ text, finish: null, usage: null, done: false }))).reason, 'unavailable')
})

test.serial('a model that says nothing is not waited for, whether noise arrives or not', async t => {
  const { ask, server } = await scene(t, { firstPieceMs: 1000 })
  for (const script of [
    { silentAfter: 0 },
    { silentAfter: 1 },
    { text: Array(100).fill(''), everyMs: 10, noise: true },
  ] satisfies ModelScript[]) {
    const { reason, generated } = await failureOf(t, ask(script))
    t.deepEqual({ reason, generated }, { reason: 'unavailable', generated: undefined })
    t.is(await server.requests.at(-1)!.outcome, 'aborted')
  }
})

test.serial('silence within an answer ends it, and after its end changes nothing', async t => {
  const { ask, server } = await scene(t, { silenceMs: 1500, afterFinishMs: 50 })
  const slow = await ask({ text: Array(20).fill('ab'), everyMs: 100 })
  t.is(slow.content?.length, 40, 'slower than the silence in all, not between two pieces')
  const { reason, generated } = await failureOf(t, ask({ text: ['one', 'two'], silentAfter: 2 }))
  t.is(reason, 'unavailable')
  t.is(generated?.completion, estimateText('one'))
  t.is(await server.requests.at(-1)!.outcome, 'aborted')
  const { content } = await ask({ text: ['one', 'two'], silentAfter: 4 })
  t.is(content, 'onetwo')
})

test('the caller’s signal ends the request at the upstream, wherever it is', async t => {
  const { ask, server } = await scene(t)
  const scripts: ModelScript[] = [{ silentAfter: 0 }, { silentAfter: 1 }, { text: ['one', 'two'], silentAfter: 2 }]
  for (const [n, script] of scripts.entries()) {
    const caller = new AbortController()
    const call = ask(script, {}, caller.signal)
    await server.received(n + 1)
    caller.abort()
    t.is((await failureOf(t, call)).reason, 'aborted')
    t.is(await server.requests[n]!.outcome, 'aborted')
  }
})

test('a prompt that was never sent costs nothing when its caller leaves', async t => {
  // Accepts connections, and never gets as far as TLS.
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  t.teardown(() => void silent.close())
  const accepted = once(silent, 'connection')
  const { model } = await scene(t, {}, { AI_UPSTREAM_URL: `https://127.0.0.1:${port}` })
  const caller = new AbortController()
  const call = model.complete(request(), options(caller.signal))
  const [socket] = await accepted
  caller.abort()
  const { reason, generated } = await failureOf(t, call)
  t.deepEqual({ reason, generated }, { reason: 'aborted', generated: undefined })
  socket.destroy()
})

test('an answer above a megabyte is broken, and read no further', async t => {
  const { ask, server } = await scene(t)
  const text = Array(32).fill('x'.repeat(64 * 1024))
  const long = { maxTokens: 1_000_000 }
  for (const script of [{ text }, { text, json: true }, { toolCalls: [toolCall('f', text)] }] satisfies ModelScript[])
    t.is((await failureOf(t, ask(script, long))).reason, 'unavailable')
  t.is((await failureOf(t, ask({ text }, long))).generated?.prompt, estimateTokens(request().messages))
  t.is((await ask({ text: text.slice(0, 15) }, long)).content?.length, 15 * 64 * 1024)
  t.is((await failureOf(t, ask({ body: `data: ${'x'.repeat(9 << 20)}` }, long))).reason, 'unavailable')
  t.true(server.requests.length > 0)
})

test('an upstream that ignores the requested length is cut off far past it', async t => {
  const { ask } = await scene(t)
  const text = (bytes: number) => Array(bytes / 1024).fill('x'.repeat(1024))
  t.is((await ask({ text: text(17 * 1024) }, { maxTokens: 16 })).content?.length, 17 * 1024)
  t.is((await failureOf(t, ask({ text: text(18 * 1024) }, { maxTokens: 16 }))).reason, 'unavailable')
})

test('an answer with more calls of tools than a message may have is broken', async t => {
  const { ask } = await scene(t)
  const calls = (count: number) => Array.from({ length: count }, (_, n) => toolCall('f', {}, `call_${n}`))
  t.is((await ask({ toolCalls: calls(128) }, { maxTokens: 4096 })).toolCalls.length, 128)
  t.is((await failureOf(t, ask({ toolCalls: calls(129) }, { maxTokens: 4096 }))).reason, 'unavailable')
})

test('figures that cannot be true are replaced by the estimate', async t => {
  const { ask } = await scene(t)
  const used = async (prompt: number, completion: number) => (await ask({ usage: { prompt, completion } })).usage
  t.deepEqual(await used(19_000, 19_000), { prompt: 19_000, completion: 19_000 })
  const estimated = { prompt: estimateTokens(request().messages), completion: 2 }
  t.deepEqual(await used(Number.MAX_SAFE_INTEGER, 1e12), estimated)
})

test('tokens that an upstream generates past the requested length are charged, too', async t => {
  const { ask } = await scene(t)
  const completion = async (script: ModelScript) => (await ask(script, { maxTokens: 16 })).usage.completion
  t.is(await completion({ text: ['x'.repeat(1000)], usage: null }), 270)
  t.is(await completion({ text: 'x', usage: { prompt: 1, completion: 5000 } }), 5000)
})

test('a malformed answer is refused, and its text is not passed on', async t => {
  const secret = 'sk-upstream-secret'
  const { ask, log } = await scene(t, {}, { AI_UPSTREAM_KEY: secret })
  const error = JSON.stringify({ error: { message: `the key ${secret} is wrong` } })
  const html = { 'content-type': 'text/html' }
  for (const script of [
    ...[401, 402, 403, 404, 408, 413, 429, 500, 503, 301, 308].map(status => ({ status, body: error })),
    { status: 302, headers: { location: '/v1/elsewhere' }, body: '' },
    ...[error, 'null', '[]', '{}', secret, '{"choices":[]}'].map(body => ({ json: true, body })),
    ...[error, secret, '[1', '{"choices":5}'].map(text => ({ body: `data: ${text}\n\ndata: [DONE]\n\n` })),
    { body: '' },
    { body: secret, headers: html },
    { body: 'data: [DONE]\n\n', headers: html },
  ] satisfies ModelScript[]) {
    const failure = await failureOf(t, ask(script))
    t.is(failure.reason, 'unavailable', JSON.stringify(script))
    t.is(failure.generated, undefined)
  }
  for (const status of [400, 422]) t.is((await failureOf(t, ask({ status, body: error }))).reason, 'refused')
  t.false(log().includes(secret))
  t.false(log().includes('is wrong'))
  t.false(log().includes('a question'))
  t.regex(log(), /"level":50.*"upstream":1.*"status":401.*"reason":"misconfigured".*check AI_UPSTREAM_URL/)
})

test('a call is logged with its figures', async t => {
  const { ask, log } = await scene(t)
  await ask({})
  const { requestId, upstream, status, reason, ms, firstPieceMs } = JSON.parse(log())
  t.deepEqual(
    { requestId, upstream, status, reason },
    { requestId: 'request-1', upstream: 1, status: 200, reason: 'answered' },
  )
  t.true(ms >= firstPieceMs)
})
