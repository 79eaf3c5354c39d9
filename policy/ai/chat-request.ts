import { z } from 'zod'
import { isStorable } from '../../lib/storable-text.ts'
import { CodedError, type ErrorCode } from '../errors.ts'
import type { ChatMessage, ChatRequest, Tool, ToolChoice } from './chat.ts'
import { chatLimits } from './chat-limits.ts'

const text = z.string().refine(isStorable, 'a text contains characters that are not allowed')
/** Id or name of a call: models are not bound to the names that callers may choose, and callers send their messages back. */
const called = text.min(1).max(256)
const name = text.regex(/^[\w-]{1,64}$/, 'a name must be 1 to 64 letters, digits, _ and -')

const toolCall = z.object({
  id: called,
  type: z.literal('function'),
  function: z.object({ name: called, arguments: text }),
})

const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'user']), content: text }),
  z
    .object({
      role: z.literal('assistant'),
      content: text.nullish(),
      tool_calls: z.array(toolCall).max(chatLimits.toolCalls).nullish(),
    })
    .refine(
      ({ content, tool_calls }) => typeof content === 'string' || tool_calls?.length,
      'content may be null only alongside tool_calls',
    ),
  z.object({ role: z.literal('tool'), content: text, tool_call_id: called }),
])

const tool = z.object({
  type: z.literal('function'),
  function: z.object({
    name,
    description: text.nullish(),
    parameters: z
      .record(z.string(), z.unknown())
      .nullish()
      .refine(isStorableDeep, 'a text contains characters that are not allowed'),
    strict: z.boolean().nullish(),
  }),
})

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.object({ type: z.literal('function'), function: z.object({ name }) }),
])

const messages = z.array(message).min(1).max(chatLimits.messages)
const tools = z.array(tool).max(chatLimits.tools)
const temperature = z.number().min(0).max(chatLimits.maxTemperature)
const maxTokens = z.number().refine(Number.isInteger, 'it must be a whole number').min(1)

/** Shapes of the fields, for the OpenAPI document. */
export const chatFieldsShown = {
  messages,
  tools: tools.nullable(),
  toolChoice: toolChoice.nullable(),
  temperature: temperature.nullable(),
  maxTokens: { type: ['integer', 'null'], minimum: 1 },
}

/** The fields of a body that are read; each is checked here, so that its refusal can say where it is wrong. */
export interface ChatBody {
  stream?: unknown
  messages?: unknown
  tools?: unknown
  tool_choice?: unknown
  temperature?: unknown
  max_tokens?: unknown
  max_completion_tokens?: unknown
}

/**
 * What a model is sent for a body, with an answer of at most `maxAnswer` tokens. A field that is null counts as left out. Throws the code
 * of the first wrong field, in the order of the contract (13.4).
 */
export function chatRequest(body: ChatBody, maxAnswer: number): ChatRequest {
  if (isSet(body.stream) && body.stream !== false) throw new CodedError('STREAM_NOT_SUPPORTED')
  const request: ChatRequest = {
    messages: field('messages', messages, body.messages, 'INVALID_MESSAGES').map(withContent),
    maxTokens: maxAnswer,
  }
  const offered = toolsOf(body.tools)
  const choice = toolChoiceOf(body.tool_choice, offered)
  if (offered.length > 0) Object.assign(request, { tools: offered, ...(choice && { toolChoice: choice }) })
  if (isSet(body.temperature))
    request.temperature = field('temperature', temperature, body.temperature, 'INVALID_TEMPERATURE')
  const ceiling = answerCeiling(body)
  if (ceiling !== undefined) request.maxTokens = Math.min(maxAnswer, ceiling)
  return request
}

/** Newer clients send the second name; the first wins. */
function answerCeiling({ max_tokens, max_completion_tokens }: ChatBody): number | undefined {
  const ceilings = Object.entries({ max_tokens, max_completion_tokens })
    .filter(([, value]) => isSet(value))
    .map(([name, value]) => field(name, maxTokens, value, 'INVALID_MAX_TOKENS'))
  return ceilings[0]
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null

/** Always with `content`, as models expect it. */
function withContent(sent: z.output<typeof message>): ChatMessage {
  if (sent.role !== 'assistant') return sent
  const { role, content = null, tool_calls } = sent
  return { role, content, ...(tool_calls?.length && { tool_calls }) }
}

function toolsOf(value: unknown): Tool[] {
  if (!isSet(value)) return []
  const offered = field('tools', tools, value, 'INVALID_TOOLS')
  const names = offered.map(({ function: { name } }) => name)
  const twice = names.find((name, n) => names.indexOf(name) !== n)
  if (twice) throw new CodedError('INVALID_TOOLS', `tools: two functions have the name ${twice}.`)
  return offered.map(({ type, function: { name, description, parameters, strict } }) => ({
    type,
    function: {
      name,
      ...(isSet(description) && { description: description! }),
      ...(isSet(parameters) && { parameters: parameters! }),
      ...(isSet(strict) && { strict }),
    },
  }))
}

function toolChoiceOf(value: unknown, offered: readonly Tool[]): ToolChoice | undefined {
  if (!isSet(value)) return undefined
  const choice = field('tool_choice', toolChoice, value, 'INVALID_TOOL_CHOICE')
  if (choice === 'required' && offered.length === 0)
    throw new CodedError('INVALID_TOOL_CHOICE', 'tool_choice: "required" needs tools.')
  if (typeof choice === 'object' && !offered.some(tool => tool.function.name === choice.function.name))
    throw new CodedError(
      'INVALID_TOOL_CHOICE',
      `tool_choice: no function in tools has the name ${choice.function.name}.`,
    )
  return choice
}

/** Parses one field. The refusal names the place, such as `messages.3.content`, and never repeats what stood there. */
function field<T extends z.ZodType>(name: string, schema: T, value: unknown, code: ErrorCode): z.output<T> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const place = [name, ...(issue?.path ?? [])].join('.')
  throw new CodedError(code, `${place}: ${reasonOf(issue)}.`)
}

function reasonOf(issue: z.core.$ZodIssue | undefined): string {
  if (!issue) return 'it is invalid'
  if (issue.code === 'custom' || issue.code === 'invalid_format') return issue.message
  if (issue.code === 'too_big' && issue.origin === 'array') return `there may be at most ${issue.maximum}`
  if (issue.code === 'too_small' && issue.origin === 'array') return `there must be at least ${issue.minimum}`
  if (issue.code === 'too_big' && issue.origin === 'string') return `it must have at most ${issue.maximum} characters`
  if (issue.code === 'too_small' && issue.origin === 'string') return `it must have at least ${issue.minimum} character`
  if (issue.code === 'too_big') return `it must be at most ${issue.maximum}`
  if (issue.code === 'too_small') return `it must be at least ${issue.minimum}`
  if (issue.code === 'invalid_type')
    return `it must be ${/^[aeiou]/.test(issue.expected) ? 'an' : 'a'} ${issue.expected}`
  if (issue.code === 'invalid_value') return `it must be ${issue.values.join(', ')}`
  if (issue.code === 'invalid_union' && issue.discriminator === 'role')
    return 'it must be system, user, assistant or tool'
  if (issue.code === 'invalid_union') return 'it must be none, auto, required, or one of the functions in tools'
  return 'it is invalid'
}

function isStorableDeep(value: unknown): boolean {
  let storable = true
  JSON.stringify(value, (key, inner) => {
    storable &&= isStorable(key) && (typeof inner !== 'string' || isStorable(inner))
    return inner
  })
  return storable
}
