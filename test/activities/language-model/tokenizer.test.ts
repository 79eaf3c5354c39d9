import type { IncomingMessage, ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { httpTokenizer } from '../../../activities/language-model/tokenizer.ts'
import { aiSettings } from '../../../policy/ai/ai-settings.ts'
import { toolCall } from '../../kit/servers/model-server.ts'
import { startOrigin } from '../../kit/servers/origin.ts'

const prompt = {
  messages: [
    { role: 'user' as const, content: 'What is the weather?' },
    { role: 'assistant' as const, content: null, tool_calls: [toolCall('weather', { city: 'Porto' })] },
  ],
  tools: [{ type: 'function' as const, function: { name: 'weather' } }],
}

async function scene(
  t: ExecutionContext,
  answer: (response: ServerResponse, request: IncomingMessage) => void,
  own: Record<string, string> = {},
  ms = 30_000,
) {
  const received: { body: Record<string, unknown>; headers: IncomingMessage['headers'] }[] = []
  const origin = await startOrigin(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    received.push({ body: JSON.parse(text), headers: request.headers })
    answer(response, request)
  })
  t.teardown(origin.stop)
  const base = `http://127.0.0.1:${origin.port}`
  const settings = aiSettings({
    AI_UPSTREAM_URL: `${base}/v1`,
    AI_UPSTREAM_KEY: 'key-1',
    AI_UPSTREAM_MODEL: 'm',
    ...own,
  })
  const count = httpTokenizer(`${base}/tokenize`, settings, ms)
  return { received, count: (signal = AbortSignal.timeout(30_000)) => count(prompt, signal) }
}

const says =
  (answer: unknown, status = 200) =>
  (response: ServerResponse) =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(typeof answer === 'string' ? answer : JSON.stringify(answer))

test('the same request is understood by servers that count messages and by those that list tokens of a text', async t => {
  const vllm = await scene(t, says({ count: 41, max_model_len: 4096, tokens: [1, 2, 3] }))
  t.is(await vllm.count(), 41)
  const llama = await scene(t, says({ tokens: [5, 6, { id: 7, piece: 'a' }] }))
  t.is(await llama.count(), 3 + 2 * 4 + 10 + 15, 'and what the template adds')
  t.deepEqual(llama.received[0]!.body, {
    model: 'm',
    ...prompt,
    content: 'What is the weather?\n\ncall_weather\nweather\n{"city":"Porto"}\n{"name":"weather"}',
  })
})

test('the key goes to the upstream’s own origin only', async t => {
  const own = await scene(t, says({ count: 1 }))
  await own.count()
  t.is(own.received[0]!.headers.authorization, 'Bearer key-1')
  const other = await scene(t, says({ count: 1 }), { AI_UPSTREAM_URL: 'https://api.example.com/v1' })
  await other.count()
  t.is(other.received[0]!.headers.authorization, undefined)
})

test('an answer that is not a count is ignored', async t => {
  for (const answer of [{}, [], null, { count: -1 }, { count: '5' }, { count: 1.5 }, { tokens: 5 }, 'nonsense', ''])
    t.is(await (await scene(t, says(answer))).count(), null, JSON.stringify(answer))
  t.is(await (await scene(t, says({ count: 5 }, 500))).count(), null)
  t.is(await (await scene(t, response => void response.writeHead(302, { location: '/x' }).end())).count(), null)
  t.is(await (await scene(t, response => void response.destroy())).count(), null)
  t.is(await (await scene(t, () => {}, {}, 100)).count(), null, 'too late')
  t.is(await (await scene(t, says({ count: 5 }))).count(AbortSignal.abort()), null)
})
