import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { getPriority } from 'node:os'
import test, { type ExecutionContext } from 'ava'
import { freePort } from '../../../cli/installation/ports.ts'
import { ensureToyModel } from '../../../cli/services/toy-model.ts'
import { openLlama } from '../../../workers/toy-model/llama.ts'
import { type TextGenerator, toyModelName } from '../../../workers/toy-model/text-generator.ts'
import { serveToyModel } from '../../../workers/toy-model/toy-server.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { productArguments } from '../../kit/product.ts'

const silent = { info() {}, error() {} } as never
const france = {
  messages: [{ role: 'user', content: 'What is the capital of France?' }],
  temperature: 0,
  max_tokens: 40,
}
const novel = { messages: [{ role: 'user', content: 'Write a long story about the sea.' }], max_tokens: 1500 }

type Answer = {
  model: string
  choices: { message: { content: string }; finish_reason: string }[]
  usage: { prompt_tokens: number; completion_tokens: number }
}

const post = (url: string, body: object, signal?: AbortSignal) =>
  fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body), signal })
const answerOf = async (url: string, body: object) => (await (await post(url, body)).json()) as Answer

/** The real model behind the server, in this process, with what it generates counted. */
async function scene(t: ExecutionContext) {
  const model = await openLlama({ ...(await ensureToyModel(line => t.log(line))), threads: 1 })
  const seen = { active: 0, maxActive: 0, pieces: 0 }
  const counted: TextGenerator = {
    async generate(request, onText, signal) {
      seen.maxActive = Math.max(seen.maxActive, ++seen.active)
      seen.pieces = 0
      const count = (piece: string) => {
        seen.pieces++
        onText(piece)
      }
      return model.generate(request, count, signal).finally(() => seen.active--)
    },
  }
  const { url, server } = await serveToyModel({ generator: counted, port: 0, log: silent })
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
    await model.close()
  })
  return { url, seen, model }
}

test.serial('the toy model knows the capital of France, also when two clients ask concurrently', async t => {
  const { url, seen } = await scene(t)
  const [one, other] = await Promise.all([answerOf(url, france), answerOf(url, france)])
  t.regex(one!.choices[0]!.message.content, /Paris/)
  t.is(one!.model, toyModelName)
  t.is(one!.choices[0]!.finish_reason, 'stop')
  t.true(one!.usage.prompt_tokens > 10 && one!.usage.completion_tokens > 3 && one!.usage.completion_tokens < 40)
  t.deepEqual([other!.choices, other!.usage], [one!.choices, one!.usage], 'neither changes the answer of the other')
  t.is(seen.maxActive, 1)
  const text = await (await post(url, { ...france, stream: true })).text()
  const frames = text.split('\n\n').filter(frame => frame.startsWith('data: {'))
  const pieces = frames.map(frame => JSON.parse(frame.slice(6)).choices[0].delta.content ?? '')
  t.is(pieces.join(''), one!.choices[0]!.message.content)
  t.true(pieces.filter(Boolean).length > 3, 'it arrives in pieces')
})

test.serial('a client that disconnects half-way stops the generation', async t => {
  const { url, seen } = await scene(t)
  const leaving = new AbortController()
  const reader = (await post(url, { ...novel, stream: true }, leaving.signal)).body!.getReader()
  await comesTrue(async () => {
    await reader.read()
    return seen.pieces > 5
  })
  leaving.abort()
  await comesTrue(() => seen.active === 0)
  t.true(seen.pieces < 1000, `${seen.pieces} pieces`)
  t.regex((await answerOf(url, france)).choices[0]!.message.content, /Paris/)
})

test.serial('a client that disconnects while its messages are read stops that', async t => {
  const { url, seen } = await scene(t)
  const content = 'The sea was quiet, and nobody spoke. '.repeat(200)
  const leaving = new AbortController()
  const call = post(url, { ...novel, messages: [{ role: 'user', content }] }, leaving.signal).catch(() => null)
  await comesTrue(() => seen.active === 1)
  leaving.abort()
  await call
  await comesTrue(() => seen.active === 0)
  t.is(seen.pieces, 0)
})

test.serial(
  'the maximum, the end of the context, marks in messages and characters of several tokens are right',
  async t => {
    const { url, model } = await scene(t)
    const short = await answerOf(url, { ...novel, max_tokens: 7 })
    t.deepEqual([short.choices[0]!.finish_reason, short.usage.completion_tokens], ['length', 7])
    const long = await post(url, { messages: [{ role: 'user', content: 'word '.repeat(3000) }] })
    t.is(long.status, 400)
    t.regex(await long.text(), /context_length_exceeded/)
    // What ends a message must not come from its text: as a mark it would be 1 token each, as text it is several.
    const mark = { messages: [{ role: 'user', content: '<|im_end|>'.repeat(20) }], max_tokens: 1 }
    t.true((await answerOf(url, mark)).usage.prompt_tokens > 100)
    const request = {
      turns: [{ role: 'user' as const, content: 'Repeat exactly: 船 🚢 é' }],
      maxTokens: 60,
      temperature: 0,
    }
    const pieces: string[] = []
    await model.generate(request, piece => pieces.push(piece), new AbortController().signal)
    t.false(pieces.join('').includes('\ufffd'), pieces.join('|'))
  },
)

test.serial('the process answers with the least share of the processor, and ends when it is asked to', async t => {
  const { libraryFolder, modelPath } = await ensureToyModel(line => t.log(line))
  const port = await freePort(0)
  const words = ['-n', '19', process.execPath, ...productArguments('workers/toy-model')]
  const child = spawn('nice', [...words, libraryFolder, modelPath, String(port)], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child, 'message')
  t.regex((await answerOf(`http://127.0.0.1:${port}`, france)).choices[0]!.message.content, /Paris/)
  t.is(getPriority(child.pid!), 19)
  const call = await post(`http://127.0.0.1:${port}`, { ...novel, stream: true })
  const text = call.text()
  child.kill('SIGTERM')
  t.deepEqual(await once(child, 'exit'), [0, null])
  await t.throwsAsync(text, undefined, 'an answer in progress is cut off')
})
