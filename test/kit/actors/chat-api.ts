import test from 'ava'
import type { LanguageModel } from '../../../activities/language-model/port.ts'
import { openLanguageModel } from '../../../activities/language-model/select.ts'
import { ChatCalls, type ChatCallsOptions } from '../../../api/v2/ai/chat-calls.ts'
import { ModelServer } from '../servers/model-server.ts'
import { type Answer, type TestApi, type TestApiOptions, type TestUser, testApi } from './api.ts'

const quiet = { info() {}, warn() {}, error() {} }

/** Calls of models as an API process makes them, by the real adapter. */
export const callsTo = (server: ModelServer, options: Omit<ChatCallsOptions, 'model'>): ChatCalls =>
  new ChatCalls({ ...options, model: openLanguageModel(server.settings(), { processes: 1, log: quiet }) })

interface ChatApi {
  api: () => TestApi
  server: () => ModelServer
}

/** Call it once at the top level of a test file: the API before a scripted model. */
export function testChatApi(
  calls: Partial<ChatCallsOptions> = {},
  options: Omit<TestApiOptions, 'services'> = {},
): ChatApi {
  let server: ModelServer
  let model: LanguageModel
  test.serial.before('start the model', async () => {
    server = await ModelServer.start()
    model = openLanguageModel(server.settings(), { processes: 1, log: quiet })
  })
  const api = testApi({
    ...options,
    services: ({ db, log }) => ({
      chatCalls: new ChatCalls({ db, log, model, countTokens: null, searches: false, dailyTokens: null, ...calls }),
    }),
  })
  test.after.always('stop the model', async () => {
    await api()?.services.chatCalls.end(0)
    await server?.stop()
  })
  return { api, server: () => server }
}

/** A conversation of one message. */
export const hello = { model: 'any', messages: [{ role: 'user', content: 'Hello?' }] }

export const chat = (api: TestApi, as: TestUser | string | undefined, body: unknown = hello): Promise<Answer> =>
  api.as(as).post('/v2/ai/chat/completions', typeof body === 'string' ? body : JSON.stringify(body))
