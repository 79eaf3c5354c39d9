import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext, SerialFn, TestFn } from 'ava'
import { type LanguageModel, ModelFailure } from '../../activities/language-model/port.ts'
import type { ChatRequest, TokenUsage, ToolCall } from '../../policy/ai/chat.ts'

export interface LanguageModelEnd {
  model: LanguageModel
  /** What the model does with the next request. */
  answers(answer: {
    text?: string
    toolCalls?: ToolCall[]
    finish?: 'stop' | 'length' | 'tool_calls'
    usage?: TokenUsage
  }): void
  /** Refuses the next request as a wrong one, or cannot answer it. */
  fails(how: 'refused' | 'unavailable'): void
  /** Begins to answer the next request, and then says nothing. */
  hangs(): void
  /** Resolves once the model works at `count` requests, since it was made. */
  received(count: number): Promise<void>
}

export const request = (own: Partial<ChatRequest> = {}): ChatRequest => ({
  messages: [{ role: 'user', content: 'a question that is a secret' }],
  maxTokens: 64,
  ...own,
})

export const options = (signal: AbortSignal = AbortSignal.timeout(30_000), account = 'ana') => ({
  account,
  signal,
  requestId: 'request-1',
})

/** The failure of a call, whose message repeats nothing of the request. */
export async function failureOf(t: ExecutionContext, call: Promise<unknown>): Promise<ModelFailure> {
  const failure = (await t.throwsAsync(call, { instanceOf: ModelFailure })) as ModelFailure
  t.notRegex(failure.message, /secret/)
  return failure
}

/** The contract of every language model. `open` makes one with nothing under way. */
export function languageModelContract(
  test: TestFn | SerialFn,
  name: string,
  open: (t: ExecutionContext) => Promise<LanguageModelEnd>,
): void {
  test(`${name}: a text is answered with its usage`, async t => {
    const end = await open(t)
    end.answers({ text: 'Olá, 世界 🙂', usage: { prompt: 12, completion: 7 } })
    t.deepEqual(await end.model.complete(request(), options()), {
      content: 'Olá, 世界 🙂',
      toolCalls: [],
      finish: 'stop',
      usage: { prompt: 12, completion: 7 },
    })
  })

  test(`${name}: calls of functions are answered in their order, without a text`, async t => {
    const end = await open(t)
    const toolCalls: ToolCall[] = [
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Porto"}' } },
      { id: 'call_2', type: 'function', function: { name: 'weather', arguments: '{"city":"São Paulo"}' } },
    ]
    end.answers({ toolCalls })
    const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: { type: 'object' } } }]
    const answer = await end.model.complete(request({ tools }), options())
    t.deepEqual({ ...answer, usage: null }, { content: null, toolCalls, finish: 'tool_calls', usage: null })
  })

  test(`${name}: an answer that the ceiling cut off says so`, async t => {
    const end = await open(t)
    end.answers({ text: 'Once upon a', finish: 'length' })
    const { finish, content } = await end.model.complete(request({ maxTokens: 3 }), options())
    t.deepEqual({ finish, content }, { finish: 'length', content: 'Once upon a' })
  })

  test(`${name}: a refused request and a model that cannot answer are distinguished, and cost nothing`, async t => {
    const end = await open(t)
    for (const how of ['refused', 'unavailable'] as const) {
      end.fails(how)
      const { reason, generated } = await failureOf(t, end.model.complete(request(), options()))
      t.deepEqual({ reason, generated }, { reason: how, generated: undefined })
    }
    t.is((await end.model.complete(request(), options())).content, 'Hello!')
  })

  test(`${name}: a caller that leaves ends the call, and pays for what was generated`, async t => {
    const end = await open(t)
    // On a busy machine the first piece takes longer.
    for (const [n, ms] of [50, 500, 5000].entries()) {
      end.hangs()
      const caller = new AbortController()
      const call = end.model.complete(request(), options(caller.signal))
      await Promise.all([end.received(n + 1), sleep(ms)])
      caller.abort()
      const { reason, generated } = await failureOf(t, call)
      t.is(reason, 'aborted')
      t.true(generated!.prompt > 0, 'the model reads what it was sent')
      if (generated!.completion > 0) return
    }
    t.fail('nothing was generated')
  })

  test(`${name}: a call of a caller that has left is not made`, async t => {
    const end = await open(t)
    const { reason, generated } = await failureOf(t, end.model.complete(request(), options(AbortSignal.abort())))
    t.deepEqual({ reason, generated }, { reason: 'aborted', generated: undefined })
  })

  test(`${name}: closing ends calls in progress and refuses later ones`, async t => {
    const end = await open(t)
    end.hangs()
    const call = end.model.complete(request(), options())
    await Promise.all([
      end.received(1).then(() => end.model.close()),
      failureOf(t, call).then(f => t.is(f.reason, 'unavailable')),
    ])
    t.is((await failureOf(t, end.model.complete(request(), options()))).reason, 'unavailable')
  })

  test(`${name}: concurrent calls of several accounts do not mix`, async t => {
    const end = await open(t)
    for (let n = 0; n < 8; n++) end.answers({ text: `answer ${n}` })
    const accounts = ['ana', 'bo', 'cy', 'di', 'ed', 'fe', 'gu', 'hu']
    const answers = await Promise.all(
      accounts.map(account => end.model.complete(request(), options(undefined, account))),
    )
    t.is(new Set(answers.map(({ content }) => content)).size, 8)
  })
}
