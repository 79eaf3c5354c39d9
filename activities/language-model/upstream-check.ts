import { deadlineSignal } from '../../lib/async/timeout.ts'
import type { AiUpstream } from '../../policy/ai/ai-settings.ts'
import { chatLimits } from '../../policy/ai/chat-limits.ts'
import { type UpstreamTimes, upstreamTimes } from '../../policy/ai/upstreams.ts'
import { searchTool } from '../../policy/ai/web-search-limits.ts'
import { httpUpstream } from './http-upstream.ts'
import { type Upstream, UpstreamFailure, type UpstreamFailureKind } from './upstream.ts'

/** An upstream's verdict on our requests. `away` = it gave no answer, so nothing is known. Holds no word of the upstream's, and no key. */
export interface UpstreamVerdict {
  state: 'accepted' | 'REFUSED' | 'away'
  /** HTTP; null when there was none. */
  status: number | null
  /** From the request to the first piece of the answer, in milliseconds; null without an answer. */
  firstPieceMs: number | null
  /** What is wrong, and the setting to check; null when it is accepted. */
  why: string | null
}

/** What the requests are like, apart from the upstream itself. */
interface CheckOptions {
  /** Whether models are offered the web search, which demands one that can call functions. */
  searches?: boolean
  /** Tests use shorter ones. */
  times?: UpstreamTimes
}

/** Output tokens. Some models that think before they answer refuse the first ceiling as a wrong request, which costs nothing. */
const ceilings = { smallest: 1, second: 256 } as const

/** Requests the smallest answer from an upstream, as calls of the gateway do. Takes 90 s at most for each of up to two requests. */
export async function checkUpstream(
  upstream: AiUpstream,
  { searches = false, times = upstreamTimes }: CheckOptions = {},
): Promise<UpstreamVerdict> {
  const server = httpUpstream(upstream, times)
  try {
    const first = await answerOf(server, ceilings.smallest, searches)
    const last = isRefused(first) ? await answerOf(server, ceilings.second, searches) : first
    return last instanceof UpstreamFailure ? verdictOn(last, upstream, searches, times) : last
  } finally {
    await server.close()
  }
}

const isRefused = (outcome: unknown): boolean => outcome instanceof UpstreamFailure && outcome.kind === 'refused'

async function answerOf(
  server: Upstream,
  maxTokens: number,
  searches: boolean,
): Promise<UpstreamVerdict | UpstreamFailure> {
  const startedAt = performance.now()
  const elapsed = () => Math.round(performance.now() - startedAt)
  let firstPieceMs: number | null = null
  const request = { messages: [{ role: 'user' as const, content: 'Hi' }], maxTokens }
  try {
    await server.complete(searches ? { ...request, tools: [searchTool] } : request, {
      signal: deadlineSignal(chatLimits.seconds * 1000),
      onFirstPiece: () => {
        firstPieceMs = elapsed()
      },
    })
    // One token may be too few for a piece of text.
    return { state: 'accepted', status: 200, firstPieceMs: firstPieceMs ?? elapsed(), why: null }
  } catch (error) {
    if (error instanceof UpstreamFailure) return error
    throw error
  }
}

function verdictOn(
  { kind, details }: UpstreamFailure,
  { key }: AiUpstream,
  searches: boolean,
  times: UpstreamTimes,
): UpstreamVerdict {
  const { status = null, code } = details
  const reasons: Record<UpstreamFailureKind, () => string> = {
    refused: () =>
      `it refuses the request (${status}): check AI_UPSTREAM_MODEL, AI_MAX_TOKENS_FIELD and AI_UPSTREAM_KEY${searches ? ', and whether the model can call functions, which AI_SEARCH_URL needs' : ''}`,
    misconfigured: () => settingsWords(status, key !== null),
    busy: () => (status === 429 ? 'it is busy, or its limits are used up (429)' : `it does not work (${status})`),
    unreachable: () => lineWords(code),
    late: () => `no piece of an answer within ${times.firstPieceMs / 1000} s: it is overloaded, or loads its model`,
    broken: () => 'its answer is cut off, or of another form: see its log',
    aborted: () => `no complete answer within ${chatLimits.seconds} s`,
  }
  const state = kind === 'refused' || kind === 'misconfigured' ? 'REFUSED' : 'away'
  return { state, status, firstPieceMs: null, why: reasons[kind]() }
}

/** The operator's mistake, by the status. */
function settingsWords(status: number | null, hasKey: boolean): string {
  if (status === 401 || status === 403)
    return hasKey
      ? `it refuses the key (${status}): check AI_UPSTREAM_KEY`
      : `it requires a key (${status}): set AI_UPSTREAM_KEY`
  if (status === 402) return 'it requires a payment (402): check the account there'
  if (status === 404)
    return 'the address or the model is missing there (404): check AI_UPSTREAM_URL, to which /chat/completions is added, and AI_UPSTREAM_MODEL'
  if (status !== null && status >= 300 && status < 400)
    return `it redirects (${status}), which is not followed: set AI_UPSTREAM_URL to the address that it redirects to`
  if (status === 200) return 'it answers, but not with a chat completion: check AI_UPSTREAM_URL'
  return `it refuses the request (${status}): check AI_UPSTREAM_URL`
}

function lineWords(code: string | undefined): string {
  if (code !== undefined && /CERT|SIGNATURE/.test(code))
    return `its certificate is not trusted (${code}): NODE_EXTRA_CA_CERTS names further authorities, also for this command`
  return `no connection${code ? ` (${code})` : ''}: check AI_UPSTREAM_URL, and whether it runs`
}
