import { z } from 'zod'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { MiB } from '../../lib/bytes.ts'
import { readCappedJson } from '../../lib/read-capped.ts'
import type { AiSettings } from '../../policy/ai/ai-settings.ts'
import type { ChatRequest } from '../../policy/ai/chat.ts'
import { overheadTokens } from '../../policy/ai/tokens.ts'
import { tokenizeMs } from '../../policy/ai/upstreams.ts'
import type { CountTokens } from './port.ts'

/** One server lists every token of the prompt, with a number each. */
const maxBytes = 8 * MiB

const counted = z.object({ count: z.int().min(0) })
const listed = z.object({ tokens: z.array(z.unknown()) })

/**
 * Counts with the server at `AI_TOKENIZE_URL`, in one request that both kinds understand: vLLM counts the messages with their template
 * (`count`), llama.cpp lists the tokens of the text (`tokens`). The key of the first upstream is sent only to its own origin.
 */
export function httpTokenizer(url: string, { upstreams }: Pick<AiSettings, 'upstreams'>, ms = tokenizeMs): CountTokens {
  const [first] = upstreams
  const isKnown = first?.key && new URL(first.url).origin === new URL(url).origin
  const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'application/json' }
  if (isKnown) headers.authorization = `Bearer ${first.key}`
  return async ({ messages, tools }, signal) => {
    const body = JSON.stringify({
      model: first?.model,
      messages,
      tools,
      content: textOf({ messages, tools: tools ?? [] }),
    })
    try {
      const deadline = deadlineSignal(ms, signal)
      const response = await fetch(url, { method: 'POST', headers, body, redirect: 'error', signal: deadline })
      const answer = await readCappedJson(response.body, maxBytes)
      if (!response.ok) return null
      const exact = counted.safeParse(answer).data?.count
      const plain = listed.safeParse(answer).data?.tokens.length
      return exact ?? (plain === undefined ? null : plain + overheadTokens(messages, tools))
    } catch {
      return null // the estimate counts instead
    }
  }
}

function textOf({ messages, tools }: Required<Pick<ChatRequest, 'messages' | 'tools'>>): string {
  const texts = messages.flatMap(({ content, tool_calls = [], tool_call_id }) => [
    content ?? '',
    ...(tool_call_id ? [tool_call_id] : []),
    ...tool_calls.map(({ id, function: called }) => `${id}\n${called.name}\n${called.arguments}`),
  ])
  return [...texts, ...tools.map(tool => JSON.stringify(tool.function))].join('\n')
}
