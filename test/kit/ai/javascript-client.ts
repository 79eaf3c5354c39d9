import OpenAI, { APIError } from 'openai'
import type { Access, OpenAiClient, Outcome } from './openai-client.ts'

type Body = OpenAI.ChatCompletionCreateParamsNonStreaming

/** The client for JavaScript, as a program constructs it. */
export const clientOf = ({ baseUrl, apiKey }: Access): OpenAI => new OpenAI({ baseURL: baseUrl, apiKey })

/** The client for JavaScript in this process. */
export const javascriptClient: OpenAiClient = {
  complete: (access, body) => outcomeOf(clientOf(access).chat.completions.create(body as Body)),
  async leave(access, body, once) {
    const leaving = new AbortController()
    const call = clientOf(access).chat.completions.create(body as Body, { signal: leaving.signal })
    const outcome = outcomeOf(call)
    await once
    leaving.abort()
    const { error } = await outcome
    if (error?.name !== 'APIUserAbortError') throw new Error(`The call was not left: ${JSON.stringify(await outcome)}`)
  },
  listModels: access => outcomeOf(listed(clientOf(access))),
  getModel: (access, model) => outcomeOf(clientOf(access).models.retrieve(model)),
}

async function listed(client: OpenAI) {
  const models: OpenAI.Model[] = []
  for await (const model of client.models.list()) models.push(model)
  return models
}

async function outcomeOf(call: PromiseLike<object>): Promise<Outcome> {
  try {
    const answer = await call
    return { answer, requestId: (answer as { _request_id?: string })._request_id ?? null }
  } catch (error) {
    if (!(error instanceof APIError)) throw error
    const { status, code, type, message } = error
    return { error: { name: error.constructor.name, status, code: code ?? null, type: type ?? null, message } }
  }
}
