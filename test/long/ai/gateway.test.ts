import test from 'ava'
import { ensureToyModel } from '../../../cli/services/toy-model.ts'
import { parseConfig } from '../../../policy/config.ts'
import { openChatCalls } from '../../../workers/adapters/chat-calls.ts'
import { openLlama } from '../../../workers/toy-model/llama.ts'
import type { TextGenerator } from '../../../workers/toy-model/text-generator.ts'
import { serveToyModel } from '../../../workers/toy-model/toy-server.ts'
import { testApi } from '../../kit/actors/api.ts'
import { javascriptClient } from '../../kit/ai/javascript-client.ts'
import { PythonClient } from '../../kit/ai/python-client.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { log } from '../../kit/platform/platform.ts'

let toy: Awaited<ReturnType<typeof serveToyModel>>
let llama: Awaited<ReturnType<typeof openLlama>>
/** Pieces of the answer that is being generated, and whether one is. */
const seen = { active: 0, pieces: 0 }

test.serial.before('the toy model', async t => {
  t.timeout(600_000)
  llama = await openLlama({ ...(await ensureToyModel(line => t.log(line))), threads: 1 })
  const generator: TextGenerator = {
    async generate(request, onText, signal) {
      seen.active++
      seen.pieces = 0
      const count = (piece: string) => {
        seen.pieces++
        onText(piece)
      }
      return llama.generate(request, count, signal).finally(() => seen.active--)
    },
  }
  toy = await serveToyModel({ generator, port: 0, log: { info() {}, error() {} } as never })
})
const api = testApi({
  services: ({ db }) => ({
    chatCalls: openChatCalls(parseConfig({ AI_UPSTREAM_URL: `${toy.url}/v1`, AI_UPSTREAM_MODEL: 'toy' }, '/'), db, log),
  }),
})
const python = new PythonClient('OpenAI')
test.after.always('end them', async () => {
  await python.end()
  await api()?.services.chatCalls.end(0)
  toy?.server.closeAllConnections()
  toy?.server.close()
  await llama?.close()
})

for (const [name, client] of [
  ['JavaScript', javascriptClient],
  ['Python', python],
] as const) {
  const scene = async () => {
    const user = await api().makeUser({ plan: 'enterprise-24' })
    return { user, access: { baseUrl: `${api().url}/v2/ai`, apiKey: user.key } }
  }

  test.serial(`${name}: a real model answers through the gateway, and its tokens are charged`, async t => {
    t.timeout(120_000)
    const { user, access } = await scene()
    const messages = [{ role: 'user', content: 'What is the capital of France?' }]
    const { answer } = await client.complete(access, { model: 'cubic', messages, temperature: 0, max_tokens: 40 })
    t.regex(answer.choices[0].message.content, /Paris/)
    const { tokens } = await api()
      .db('ai_budgets')
      .where({ subject: `user/${user.id}` })
      .first()
    t.is(Number(tokens), answer.usage.total_tokens)
  })

  test.serial(`${name}: a client that leaves half-way ends the generation, and pays for what there was`, async t => {
    t.timeout(120_000)
    const { user, access } = await scene()
    const messages = [{ role: 'user', content: 'Write a long story about the sea.' }]
    seen.pieces = 0
    const halfWay = comesTrue(() => seen.active === 1 && seen.pieces >= 20)
    await client.leave(access, { model: 'cubic', messages, max_tokens: 500 }, halfWay)
    await comesTrue(() => seen.active === 0)
    const calls = () => api().db('ai_calls').where({ user_id: user.id })
    await comesTrue(async () => (await calls()).length === 0)
    const { tokens } = await api()
      .db('ai_budgets')
      .where({ subject: `user/${user.id}` })
      .first()
    t.true(Number(tokens) > 20 && Number(tokens) < 400, tokens)
  })
}
