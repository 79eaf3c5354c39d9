import { z } from 'zod'
import { MiB } from '../../lib/bytes.ts'
import { readCappedJson } from '../../lib/read-capped.ts'
import type { WebSearch } from './port.ts'

const maxBytes = 2 * MiB

/** Engines leave out what they do not know. */
const text = z.string().nullish().catch(null)
const answer = z.object({ results: z.array(z.object({ title: text, url: text, content: text })) })

/** The JSON answers of SearXNG, which must have `json` among its formats. */
export function searxngSearch(baseUrl: string): WebSearch {
  return {
    async search(query, signal) {
      const address = `${baseUrl}/search?${new URLSearchParams({ q: query, format: 'json' })}`
      const response = await fetch(address, {
        redirect: 'error',
        signal,
        headers: { accept: 'application/json' },
      }).catch(
        () => null, // its error may name the address, and so the query
      )
      if (!response?.ok) {
        await response?.body?.cancel()
        throw new Error(response ? `The web search answered ${response.status}.` : 'The web search did not answer.')
      }
      const { data } = answer.safeParse(await readCappedJson(response.body, maxBytes))
      if (!data)
        throw new Error('The web search answered in another form: check that its settings permit the format json.')
      return data.results.flatMap(({ title, url, content }) =>
        url ? [{ title: title ?? '', url, excerpt: content ?? '' }] : [],
      )
    },
  }
}
