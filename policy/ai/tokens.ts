import type { ChatMessage, Tool } from './chat.ts'

/** Tokens of a character by its script, as measured with several tokenizers, which differ from model to model. */
const perCharacter = { ascii: 0.27, cjk: 0.6, other: 0.5 } as const
const perMessage = 4
const perTool = 10
/** Of a call of a function, whose template names its parts. */
const perCall = 15

/** Estimated tokens of a prompt with its functions. Takes some milliseconds for 2 MB. */
export function estimateTokens(messages: readonly ChatMessage[], tools: readonly Tool[] = []): number {
  let tokens = overheadTokens(messages, tools)
  for (const { content, tool_calls = [], tool_call_id = '' } of messages) {
    tokens += tokensOf(content ?? '') + tokensOf(tool_call_id)
    for (const { id, function: call } of tool_calls)
      tokens += tokensOf(id) + tokensOf(call.name) + tokensOf(call.arguments)
  }
  for (const tool of tools) tokens += tokensOf(JSON.stringify(tool.function))
  return Math.ceil(tokens)
}

/** Tokens around the texts of a prompt, which its template adds. */
export const overheadTokens = (messages: readonly ChatMessage[], tools: readonly Tool[] = []): number =>
  messages.reduce((sum, { tool_calls = [] }) => sum + perMessage + tool_calls.length * perCall, tools.length * perTool)

/** Estimated tokens of a text; 0 only for an empty one. */
export const estimateText = (text: string): number => Math.ceil(tokensOf(text))

/** Upper bound of the estimate for *n* characters of any script. */
export const tokensOfCharacters = (characters: number): number => Math.ceil(characters * perCharacter.cjk)

function tokensOf(text: string): number {
  if (Buffer.byteLength(text) === text.length) return text.length * perCharacter.ascii // by far the quickest way to know
  let ascii = 0
  let cjk = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x80) ascii++
    else if (code >= 0x2e80 && isCjk(code)) cjk++
  }
  return ascii * perCharacter.ascii + cjk * perCharacter.cjk + (text.length - ascii - cjk) * perCharacter.other
}

/** Radicals to ideographs (with kana between them), Hangul, compatibility ideographs, and forms of full width. */
const isCjk = (code: number): boolean =>
  code <= 0x9fff ||
  (code >= 0xac00 && code <= 0xd7af) ||
  (code >= 0xf900 && code <= 0xfaff) ||
  (code >= 0xff00 && code <= 0xffef)
