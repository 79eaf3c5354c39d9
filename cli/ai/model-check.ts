import { openTokenizer } from '../../activities/language-model/select.ts'
import { checkUpstream, type UpstreamVerdict } from '../../activities/language-model/upstream-check.ts'
import { searxngSearch } from '../../activities/web-search/searxng.ts'
import type { AiSettings } from '../../policy/ai/ai-settings.ts'
import { tokenizeMs } from '../../policy/ai/upstreams.ts'
import { webSearchLimits } from '../../policy/ai/web-search-limits.ts'
import { columns } from '../terminal/terminal.ts'

/** One address of the settings with its verdict: exactly these keys, which docs/json-output.md lists. */
interface CheckedAddress {
  part: 'upstream' | 'tokenizer' | 'web search'
  /** As in the log lines of the api; null unless it is an upstream. */
  number: number | null
  address: string
  model: string | null
  state: UpstreamVerdict['state']
  /** HTTP; null when there was none, or it is unknown. */
  status: number | null
  first_piece_ms: number | null
  why: string | null
}

/** Requests the smallest answer from each address of the settings, concurrently; the upstreams come first, in their order. */
export function checkAddresses(settings: AiSettings): Promise<CheckedAddress[]> {
  const { searchUrl, tokenizeUrl } = settings
  return Promise.all([
    ...settings.upstreams.map(async (upstream, n): Promise<CheckedAddress> => {
      const { url: address, model } = upstream
      const { state, status, firstPieceMs, why } = await checkUpstream(upstream, { searches: searchUrl !== null })
      return { part: 'upstream', number: n + 1, address, model, state, status, first_piece_ms: firstPieceMs, why }
    }),
    ...(tokenizeUrl === null ? [] : [checked('tokenizer', tokenizeUrl, tokenizerProblem(settings))]),
    ...(searchUrl === null ? [] : [checked('web search', searchUrl, searchProblem(searchUrl))]),
  ])
}

/** A part without which calls are answered nevertheless: it works, or is away. */
async function checked(
  part: 'tokenizer' | 'web search',
  address: string,
  problem: Promise<string | null>,
): Promise<CheckedAddress> {
  const why = await problem
  const state = why === null ? 'accepted' : 'away'
  return { part, number: null, address, model: null, state, status: null, first_piece_ms: null, why }
}

async function tokenizerProblem(settings: AiSettings): Promise<string | null> {
  const messages = [{ role: 'user' as const, content: 'Hi' }]
  const count = await openTokenizer(settings)?.({ messages }, AbortSignal.timeout(tokenizeMs))
  if (typeof count === 'number') return null
  return `no number of tokens within ${tokenizeMs / 1000} s: check AI_TOKENIZE_URL; until then prompts are estimated`
}

async function searchProblem(url: string): Promise<string | null> {
  const deadline = AbortSignal.timeout(webSearchLimits.timeoutMs)
  try {
    await searxngSearch(url).search('test', deadline)
    return null
  } catch (error) {
    const what = deadline.aborted ? `No answer within ${webSearchLimits.timeoutMs / 1000} s.` : (error as Error).message
    return `${what} Check AI_SEARCH_URL, and that the settings there permit the format json; until then searches find nothing`
  }
}

/** `berth ai check` for people. */
export function addressTable(addresses: readonly CheckedAddress[]): string {
  return columns(
    addresses.map(({ part, number, address, model, state, first_piece_ms: ms, why }) => [
      number === null ? part : `${part} ${number}`,
      address,
      model ?? '',
      `${state}${why ? `: ${why}` : ms === null ? '' : `, first piece after ${ms} ms`}`,
    ]),
    '',
  )
}
