import test, { type ExecutionContext } from 'ava'
import { withSearch } from '../../../activities/language-model/with-search.ts'
import type { WebSearch } from '../../../activities/web-search/port.ts'
import type { ChatRequest, ToolCall } from '../../../policy/ai/chat.ts'
import { failureOf, languageModelContract, options, request } from '../../contracts/language-model.ts'
import { type FakeAnswer, FakeModel } from '../../kit/fakes/language-model.ts'
import { logSink } from '../../kit/log-sink.ts'
import { toolCall } from '../../kit/servers/model-server.ts'

const page = { title: 'Porto', url: 'https://example.com/porto', excerpt: 'A city.' }

function scene(search: WebSearch['search'] = async () => [page]) {
  const fake = new FakeModel()
  const searched: string[] = []
  const { log, text } = logSink()
  const web: WebSearch = {
    search(query, signal) {
      searched.push(query)
      return search(query, signal)
    },
  }
  const model = withSearch(fake, web, log)
  const ask = (answers: FakeAnswer[], own: Partial<ChatRequest> = {}, signal?: AbortSignal) => {
    fake.next(...answers)
    return model.complete(request(own), options(signal))
  }
  return { fake, model, ask, searched, log: text }
}

languageModelContract(test, 'with search', async () => {
  const { model, fake } = scene()
  return {
    model,
    answers: answer => fake.next(answer),
    fails: how => fake.next({ fails: how }),
    hangs: () => fake.next({ hangsAfter: { prompt: 9, completion: 1 } }),
    received: async () => {},
  }
})

const search = (query: unknown, id = 'call_s'): ToolCall => toolCall('web_search', { query }, id)
const weather = { type: 'function' as const, function: { name: 'weather' } }
const usage = (prompt: number, completion: number) => ({ prompt, completion })
const names = ({ tools }: ChatRequest) => tools?.map(tool => tool.function.name)

test('a model that searches gets results and answers, and its caller sees the answer with the usage of both', async t => {
  const { ask, fake, searched } = scene()
  const answer = await ask([
    { toolCalls: [search(' porto ')], usage: usage(20, 5) },
    { text: 'A city.', usage: usage(60, 4) },
  ])
  t.deepEqual(answer, { content: 'A city.', toolCalls: [], finish: 'stop', usage: usage(80, 9) })
  t.deepEqual(searched, ['porto'])
  t.deepEqual(fake.requests.map(names), [['web_search'], ['web_search']])
  t.deepEqual(fake.requests[1]!.messages.slice(1), [
    { role: 'assistant', content: null, tool_calls: [search(' porto ')] },
    { role: 'tool', tool_call_id: 'call_s', content: 'Porto\nhttps://example.com/porto\nA city.' },
  ])
  t.deepEqual(
    fake.requests.map(({ maxTokens }) => maxTokens),
    [64, 59],
    'one ceiling for all rounds',
  )
})

test('there are three rounds, of which the last has no search', async t => {
  for (const [tools, last, choice] of [
    [undefined, ['web_search'], 'none'],
    [[weather], ['weather'], undefined],
  ] as const) {
    const { ask, fake, searched } = scene()
    const again = { toolCalls: [search('more')], usage: usage(10, 10) }
    const { content, toolCalls, finish } = await ask([again, again, again], tools ? { tools: [...tools] } : {})
    t.deepEqual({ content, toolCalls, finish }, { content: '', toolCalls: [], finish: 'stop' })
    t.is(fake.requests.length, 3)
    t.deepEqual(names(fake.requests[2]!), [...last])
    t.is(fake.requests[2]!.toolChoice, choice)
    t.is(searched.length, 2)
  }
})

test('a turn that also calls the caller’s functions is the caller’s, without the search', async t => {
  const { ask, searched, fake } = scene()
  const own = toolCall('weather')
  const { toolCalls, finish } = await ask([{ toolCalls: [search('porto'), own] }], { tools: [weather] })
  t.deepEqual({ toolCalls, finish }, { toolCalls: [own], finish: 'tool_calls' })
  t.deepEqual(names(fake.requests[0]!), ['weather', 'web_search'])
  t.deepEqual(searched, [])
})

test('nothing is offered alongside a function of the same name, or where a choice leaves no room', async t => {
  const { ask, fake, searched } = scene()
  const own = { type: 'function' as const, function: { name: 'web_search' } }
  const { toolCalls } = await ask([{ toolCalls: [search('x')] }], { tools: [own] })
  t.deepEqual(toolCalls, [search('x')], 'the caller answers it')
  await ask([{}], { tools: [weather], toolChoice: 'none' })
  await ask([{}], { tools: [weather], toolChoice: { type: 'function', function: { name: 'weather' } } })
  t.deepEqual(fake.requests.map(names), [['web_search'], ['weather'], ['weather']])
  await ask([{}], { tools: [weather], toolChoice: 'required' })
  t.deepEqual(names(fake.requests[3]!), ['weather', 'web_search'])
  t.is(fake.requests[3]!.toolChoice, 'required')
  t.deepEqual(searched, [])
})

test('a search that fails, is wrong or finds nothing does not fail the call', async t => {
  const secret = 'secret query'
  const failing = scene(async query => {
    throw new Error(`no ${query}`)
  })
  const wrong = { ...search(1), function: { name: 'web_search', arguments: '{' } }
  const many = Array.from({ length: 5 }, (_, n) => search(secret, `call_${n}`))
  for (const [of, calls, count] of [
    [failing, [search(secret)], 1],
    [scene(async () => []), [search('x')], 1],
    [scene(), [wrong], 0],
    [scene(), [search(5)], 0],
    [scene(), [search('  ')], 0],
    [scene(), many, 3],
  ] as const) {
    const { content } = await of.ask([{ toolCalls: [...calls] }, { text: 'I do not know.' }])
    t.is(content, 'I do not know.')
    t.is(of.searched.length, count)
    const results = of.fake.requests[1]!.messages.filter(({ role }) => role === 'tool')
    t.deepEqual(
      results.map(({ tool_call_id }) => tool_call_id),
      calls.map(({ id }) => id),
      'each search is answered',
    )
    t.is(results.at(-1)!.content, 'No results.')
  }
  t.regex(failing.log(), /"reason":"failed".*a web search failed/)
  t.false(failing.log().includes(secret))
})

test('results are few and short, and hold nothing that is no text', async t => {
  const { ask, fake } = scene(async () => Array(9).fill({ ...page, excerpt: `\0\ud800${'x'.repeat(5000)}` }))
  await ask([{ toolCalls: [search('y'.repeat(9000))] }, {}])
  const { content } = fake.requests[1]!.messages.at(-1)!
  t.is(content!.split('\n\n').length, 5)
  t.true(content!.length <= 5 * 1000 + 8)
  t.notRegex(content!, /\0|\ud800/)
})

test('the ceiling of output holds over all rounds', async t => {
  const { ask, fake } = scene()
  const spent = { toolCalls: [search('x')], usage: usage(10, 64) }
  const { finish, content, usage: all } = await ask([spent])
  t.deepEqual({ finish, content, all }, { finish: 'length', content: '', all: usage(10, 64) })
  const { finish: cut, toolCalls } = await ask([{ ...spent, finish: 'length' }])
  t.deepEqual({ cut, toolCalls }, { cut: 'length', toolCalls: [] }, 'a search that was cut off')
  t.is(fake.requests.length, 2)
})

/** A failure of the second round. */
async function later(t: ExecutionContext, ...answers: FakeAnswer[]) {
  const { ask } = scene()
  return failureOf(t, ask([{ toolCalls: [search('x')], usage: usage(10, 5) }, ...answers]))
}

test('a failure of a later round counts what the earlier ones used, and is not the caller’s', async t => {
  const away = await later(t, { fails: 'unavailable', generated: usage(30, 2) })
  t.deepEqual({ ...away }, { ...away, reason: 'unavailable', generated: usage(40, 7) })
  const refused = await later(t, { fails: 'refused' }, { fails: 'refused' })
  t.deepEqual({ ...refused }, { ...refused, reason: 'unavailable', generated: usage(10, 5) })
})

test('where a model refuses what was found, or has no place for it, it answers without', async t => {
  for (const fails of ['refused', 'unavailable'] as const) {
    const { ask, fake } = scene()
    const answer = await ask([
      { toolCalls: [search('x')], usage: usage(10, 5) },
      { fails },
      { text: 'I do not know.', usage: usage(10, 4) },
    ])
    t.deepEqual([answer.content, answer.usage], ['I do not know.', usage(20, 9)])
    const { messages, tools, maxTokens } = fake.requests[2]!
    t.deepEqual([messages, tools, maxTokens], [request().messages, undefined, 64 - 5])
  }
})

test('a caller that leaves during a search pays for what was generated', async t => {
  const caller = new AbortController()
  const { ask, fake } = scene(async () => {
    caller.abort()
    return new Promise(() => {})
  })
  const { reason, generated } = await failureOf(
    t,
    ask([{ toolCalls: [search('x')], usage: usage(10, 5) }], {}, caller.signal),
  )
  t.deepEqual({ reason, generated }, { reason: 'aborted', generated: usage(10, 5) })
  t.is(fake.requests.length, 1)
})
