import { z } from 'zod'
import type { Completion } from '../../../policy/ai/chat.ts'
import { chatLimits, modelName } from '../../../policy/ai/chat-limits.ts'
import { chatRequest, chatFieldsShown as shown } from '../../../policy/ai/chat-request.ts'
import { newId } from '../../../policy/ids.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { checkedByEndpoint } from '../../pipeline/fields.ts'
import { countRefusal, gateway } from './gateway.ts'

/** A field that `chatRequest` checks, with what the document shows of it. */
const checked = (openapi: z.ZodType | object) =>
  z
    .unknown()
    .optional()
    .meta({ ...checkedByEndpoint, openapi })

/** `messages` is required, but may be missing here: it is not the first field to be checked. */
const chatBody = z
  .object({
    model: checked({
      description: `Accepted for compatibility, and ignored: the answer comes from ${modelName}.`,
    }),
    messages: checked(shown.messages),
    max_tokens: checked(shown.maxTokens),
    max_completion_tokens: checked({ ...shown.maxTokens, description: 'Read when max_tokens is left out.' }),
    temperature: checked(shown.temperature),
    tools: checked(shown.tools),
    tool_choice: checked(shown.toolChoice),
    stream: checked(z.literal(false).nullable()),
  })
  .meta({ choices: [[{ required: ['messages'] }]] })

const completion = z.object({
  id: z.string().regex(/^chatcmpl-[0-9a-f]{24}$/),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.literal(modelName),
  choices: z.array(
    z.object({
      index: z.int(),
      message: z.object({
        role: z.literal('assistant'),
        content: z.string().nullable(),
        tool_calls: z
          .array(
            z.object({
              id: z.string(),
              type: z.literal('function'),
              function: z.object({ name: z.string(), arguments: z.string() }),
            }),
          )
          .optional(),
      }),
      finish_reason: z.enum(['stop', 'tool_calls']),
    }),
  ),
  usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }),
})

/** Contract 13.2: a chat completion. Stateless; nothing of the conversation is stored or logged. */
export const createChatCompletion = endpoint({
  ...gateway,
  name: 'ai.chat',
  method: 'POST',
  path: '/v2/ai/chat/completions',
  summary: 'Let a model continue a conversation',
  onRefusal: countRefusal,
  countsItself: true,
  body: chatBody,
  maxBodyBytes: chatLimits.bodyBytes,
  namesAreData: true,
  changesNothing: true,
  mayBeCutOff: true,
  response: completion,
  errors: [
    ...gateway.errors,
    'STREAM_NOT_SUPPORTED',
    'INVALID_MESSAGES',
    'INVALID_TOOLS',
    'INVALID_TOOL_CHOICE',
    'INVALID_TEMPERATURE',
    'INVALID_MAX_TOKENS',
    'CONTEXT_LENGTH_EXCEEDED',
    'INVALID_REQUEST',
    'CONCURRENT_LIMIT_REACHED',
    'RATE_LIMIT_EXCEEDED',
    'DAILY_SPEND_LIMIT_REACHED',
    'DAILY_LIMIT_REACHED',
    'DAILY_CAPACITY_REACHED',
    'SERVER_OVERLOADED',
  ],
  async handle({ caller, body, exchange, counting }, { chatCalls }) {
    const request = chatRequest(body, caller.plan.aiOutputTokens)
    const answer = await chatCalls.answer({ caller, exchange, request, counting })
    if (answer.finish === 'length') exchange.headers['X-Finish-Reason'] = 'length'
    return shownAs(answer)
  },
})

function shownAs({ content, toolCalls, finish, usage }: Completion): z.input<typeof completion> {
  return {
    id: `chatcmpl-${newId().slice(0, 24)}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model: modelName,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, ...(toolCalls.length > 0 && { tool_calls: toolCalls }) },
        // That an answer was cut off is reported in a header: clients accept only these two.
        finish_reason: finish === 'tool_calls' ? 'tool_calls' : 'stop',
      },
    ],
    usage: {
      prompt_tokens: usage.prompt,
      completion_tokens: usage.completion,
      total_tokens: usage.prompt + usage.completion,
    },
  }
}
