import type { Tool } from './chat.ts'

/** What a model may do on the web for one call. */
export const searchTerms = {
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
