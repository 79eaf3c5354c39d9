import type { ChatMessage, ChatRequest, Tool } from './chat.ts'
import { estimateTokens, tokensOfCharacters } from './tokens.ts'

/** What a model may do on the web for one call. */
export const webSearchLimits = {
  /** Requests to the model, of which the last one offers no search. */
  rounds: 3,
  /** Searches of one round; further ones find nothing. */
  searches: 3,
  /** Results of a search, and characters of each. */
  results: 5,
  characters: 1000,
  /** Characters of what is searched for. */
  query: 400,
  /** A search that takes longer finds nothing. */
  timeoutMs: 5000,
} as const

/** The function that models search the web with, unless the caller has one of this name. */
export const searchTool: Tool = {
  type: 'function',
  function: {
    name: 'web_search',
    description: 'Searches the web. Returns titles, addresses and excerpts of a few pages.',
    parameters: {
      type: 'object',
      properties: { query: { type: 'string', description: 'What to search for' } },
      required: ['query'],
    },
  },
}

/** A caller's function of the same name is the caller's, and a caller that demands one function gets a call of it. */
export const offersSearch = ({ tools = [], toolChoice, webSearch = true }: ChatRequest): boolean =>
  webSearch &&
  toolChoice !== 'none' &&
  typeof toolChoice !== 'object' &&
  !tools.some(tool => tool.function.name === searchTool.function.name)

/**
 * Tokens that searching may add to a prompt, at most: each further round sends it again, with all that the model and its searches have
 * brought before. They are reserved, so that a call never passes a budget.
 */
export function searchTokens(request: ChatRequest, promptTokens: number): number {
  const { rounds, searches, results, characters } = webSearchLimits
  const offer = estimateTokens([], [searchTool])
  const resultTokens =
    tokensOfCharacters(searches * results * characters) + estimateTokens(Array(searches + 1).fill(empty))
  let more = rounds * offer
  for (let round = 1; round < rounds; round++) more += promptTokens + round * (request.maxTokens + resultTokens)
  return more
}

const empty: ChatMessage = { role: 'tool', content: '' }
