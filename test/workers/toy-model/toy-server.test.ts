import { request } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import {
  PromptTooLong,
  type TextGenerator,
  type TextRequest,
  toyModelName,
} from '../../../workers/toy-model/text-generator.ts'
import { serveToyModel } from '../../../workers/toy-model/toy-server.ts'
import { comesTrue } from '../../kit/comes-true.ts'

/** A generator that answers what a test says, when it says so, and notes what it was given. */
class ScriptedGenerator implements TextGenerator {
  readonly requests: TextRequest[] = []
  readonly signals: AbortSignal[] = []
  active = 0
  maxActive = 0
  pieces = ['The ', 'capital']
  /** Pieces that are handed over before it fails with it. */
  failure: { after: number; error: Error } | null = null
  #open: Promise<void> = Promise.resolve()

  /** Answers wait after their first piece, until the returned function is called. */
  hold(): () => void {
    let release = () => {}
    this.#open = new Promise(resolve => {
      release = resolve
    })
    return release
  }

  async generate(...[wanted, onText, signal]: Parameters<TextGenerator['generate']>) {
    this.requests.push(wanted)
    this.signals.push(signal)
    this.maxActive = Math.max(this.maxActive, ++this.active)
    try {
      for (const [n, piece] of this.pieces.entries()) {
        if (this.failure?.after === n) throw this.failure.error
        onText(piece)
        const aborted = new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        await Promise.race([this.#open, aborted])
      }
      return { finish: 'stop' as const, usage: { prompt: 7, completion: 2 } }
    } finally {
      this.active--
    }
  }
}

async function scene(t: ExecutionContext, maxWaiting?: number) {
  const generator = new ScriptedGenerator()
  const lines: string[] = []
  const log = { info: (_: unknown, line?: string) => void lines.push(line ?? ''), error() {} }
  const { url, server } = await serveToyModel({ generator, port: 0, log: log as never, maxWaiting })
  t.teardown(
    () =>
      new Promise<void>(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  const post = (body: unknown, { signal, headers }: { signal?: AbortSignal; headers?: Record<string, string> } = {}) =>
    fetch(`${url}/v1/chat/completions`, {
      ...{ method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, signal },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  const say = (content: string, more: object = {}) => ({ messages: [{ role: 'user', content }], ...more })
  return { generator, lines, url, post, say }
}

const errorOf = async (response: Response) => [
  response.status,
  ((await response.json()) as { error: { code: string } }).error.code,
]

test('a whole answer has the shape that clients of models read, with its usage, and is named a toy', async t => {
  const { generator, url, post } = await scene(t)
  const response = await post({
    model: 'anything',
    messages: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [...'Hi', '!'].map(text => ({ type: 'text', text })) },
      { role: 'assistant', content: null, tool_calls: [] },
    ],
    ...{ max_tokens: 5, temperature: 0, tools: [], stream: false },
  })
  t.is(response.status, 200)
  const { id, created, ...rest } = (await response.json()) as { id: string; created: number }
  t.regex(id, /^chatcmpl-[0-9a-f]{24}$/)
  t.true(Math.abs(created - Date.now() / 1000) < 60)
  t.deepEqual(rest, {
    ...{ object: 'chat.completion', model: toyModelName },
    choices: [{ index: 0, message: { role: 'assistant', content: 'The capital' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 },
  })
  t.like(generator.requests[0], {
    turns: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi!' },
      { role: 'assistant', content: '' },
    ],
    ...{ maxTokens: 5, temperature: 0 },
  })
  const list = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  t.deepEqual(
    list.data.map(model => model.id),
    [toyModelName],
  )
  t.regex(toyModelName, /^toy-/)
})

test('a stream hands over each piece as it is generated, then the end, the usage if requested, and [DONE]', async t => {
  const { generator, post, say } = await scene(t)
  const release = generator.hold()
  const response = await post(say('Hi', { stream: true, stream_options: { include_usage: true } }))
  t.is(response.headers.get('content-type'), 'text/event-stream')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('The ')) text += (await reader.read()).value
  t.false(text.includes('capital'), 'the rest is not generated yet')
  release()
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value
  const frames = text.split('\n\n').slice(0, -1)
  t.is(frames.pop(), 'data: [DONE]')
  const parsed = frames.map(frame => JSON.parse(frame.slice('data: '.length)))
  t.is(new Set(parsed.map(({ id }) => id)).size, 1)
  t.deepEqual(
    parsed.map(({ choices, usage }) => [choices[0]?.delta, choices[0]?.finish_reason, usage?.total_tokens]),
    [
      [{ role: 'assistant', content: '' }, null, undefined],
      [{ content: 'The ' }, null, undefined],
      [{ content: 'capital' }, null, undefined],
      [{}, 'stop', undefined],
      [undefined, undefined, 9],
    ],
  )
  const without = await (await post(say('Hi', { stream: true }))).text()
  t.false(without.includes('usage'))
})

test('the toy model answers one request at a time, a number of them waits, and those above are refused immediately', async t => {
  const { generator, lines, post, say } = await scene(t, 2)
  const release = generator.hold()
  const first = post(say('first'))
  await comesTrue(() => generator.active === 1)
  const refused: Response[] = []
  const calls = Array.from({ length: 5 }, (_, n) => {
    const leaving = new AbortController()
    const call = { n, leaving, status: 0, ended: Promise.resolve() }
    call.ended = post(say(String(n)), { signal: leaving.signal }).then(
      answer => {
        call.status = answer.status
        if (answer.status === 503) refused.push(answer)
      },
      () => {},
    )
    return call
  })
  await comesTrue(() => refused.length === 3)
  for (const answer of refused) {
    t.is(answer.headers.get('retry-after'), '5')
    t.deepEqual(await errorOf(answer), [503, 'server_overloaded'])
  }
  const [leaves, stays] = calls.filter(({ status }) => status === 0)
  leaves!.leaving.abort()
  await comesTrue(() => lines.includes('the client has disconnected'))
  release()
  t.is((await first).status, 200)
  await Promise.all([leaves!.ended, stays!.ended])
  t.is(stays!.status, 200)
  t.is((await post(say('last'))).status, 200)
  t.is(generator.maxActive, 1)
  t.deepEqual(
    generator.requests.map(({ turns }) => turns[0]!.content),
    ['first', String(stays!.n), 'last'],
    'nothing is generated for one that left while it waited',
  )
})

test('a client that disconnects ends the generation, and the next one is answered', async t => {
  const { generator, post, say } = await scene(t)
  const release = generator.hold()
  for (const stream of [true, false]) {
    const leaving = new AbortController()
    const call = post(say('long', { stream }), { signal: leaving.signal })
    if (stream) await (await call).body!.getReader().read()
    await comesTrue(() => generator.active === 1)
    leaving.abort()
    await call.catch(() => {})
    await comesTrue(() => generator.active === 0)
    t.true(generator.signals.at(-1)!.aborted)
  }
  release()
  t.is((await post(say('next'))).status, 200)
})

test('a request that cannot be answered is refused with a code, and nothing is generated for it', async t => {
  const { generator, url, post, say } = await scene(t)
  for (const body of [
    ...['{', '[]', '{}', 'null', say('a', { max_tokens: 0 }), say('a', { max_tokens: 1.5 }), { messages: [] }],
    ...[say('a', { temperature: 3 }), say('a', { stream: 'yes' }), { messages: [{ role: 'king', content: 'a' }] }],
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
  ])
    t.deepEqual(await errorOf(await post(body)), [400, 'invalid_request'], JSON.stringify(body))
  const large = await post(say('a'.repeat(2 * 1024 * 1024)))
  t.deepEqual(await errorOf(large), [413, 'payload_too_large'])
  const fromPage = await post(say('a'), { headers: { Origin: 'https://example.org' } })
  t.deepEqual(await errorOf(fromPage), [403, 'forbidden'])
  for (const path of ['/', '/v1/chat/completions', '/v1/embeddings'])
    t.deepEqual(await errorOf(await fetch(`${url}${path}`)), [404, 'not_found'], path)
  t.deepEqual(generator.requests, [])
})

test('a body of unknown length is cut off above the maximum', async t => {
  const { generator, url } = await scene(t)
  const outcome = await new Promise(resolve => {
    const call = request(`${url}/v1/chat/completions`, { method: 'POST' }, ({ statusCode }) => resolve(statusCode))
    call.once('error', () => resolve('cut'))
    call.write('a'.repeat(3 * 1024 * 1024))
  })
  t.is(outcome, 'cut')
  t.deepEqual(generator.requests, [])
})

test('messages that are too long are refused, a failure before the first piece is 500, and one after it cuts the line', async t => {
  const { generator, post, say } = await scene(t)
  generator.failure = { after: 0, error: new PromptTooLong(3000, 2032) }
  t.deepEqual(await errorOf(await post(say('a', { stream: true }))), [400, 'context_length_exceeded'])
  generator.failure = { after: 0, error: new Error('secret of the library') }
  const failed = await post(say('a', { stream: true }))
  t.false((await failed.clone().text()).includes('secret'))
  t.deepEqual(await errorOf(failed), [500, 'server_error'])
  generator.failure = { after: 1, error: new Error('out of memory') }
  const release = generator.hold()
  const cut = await post(say('a', { stream: true }))
  t.is(cut.status, 200)
  release()
  await t.throwsAsync(cut.text())
  generator.failure = null
  t.is((await post(say('a'))).status, 200)
})
