import { AsyncLocalStorage } from 'node:async_hooks'
import { lookup } from 'node:dns'
import { Agent } from 'node:https'
import type { LookupFunction } from 'node:net'
import { createSecureContext, rootCertificates } from 'node:tls'
import acme from 'acme-client'
import { isClosedAddress, isPublicAddress } from '../../../lib/addresses.ts'
import { deadlineSignal } from '../../../lib/async/timeout.ts'
import { authorityRules } from '../../../policy/domains/authority-rules.ts'
import { AuthorityError } from '../port.ts'
import { type ProblemDocument, problemOf, retryAfterMs } from './problems.ts'

/** One of our calls and the requests that the library sends for it. */
interface Call {
  agent: Agent
  host: string
  signal: AbortSignal
  /** The last refusal of the authority. A refused nonce counts until another is accepted: the library repeats these. */
  refusal: { status: number; body: ProblemDocument; retryAfter: string | undefined } | null
}

const calls = new AsyncLocalStorage<Call>()

// The library has one client of HTTP for the whole process. Each request gets the bounds of the call that it belongs to.
acme.axios.interceptors.request.use(config => {
  const call = calls.getStore()
  if (!call) throw new Error('A request to an authority outside of a call.')
  const url = new URL(config.url!)
  if (url.protocol !== 'https:' || (url.hostname !== call.host && isClosedAddress(url.hostname)))
    throw new AuthorityError('invalidAnswer', `The authority names an address that is not public: ${url.host}.`)
  return Object.assign(config, {
    ...{
      httpsAgent: call.agent,
      signal: call.signal,
      timeout: authorityRules.requestMs,
      proxy: false,
      maxRedirects: 0,
    },
    ...{ maxContentLength: authorityRules.answerBytes, maxBodyLength: authorityRules.answerBytes },
  })
})
// In place of the library's own repetitions: the workflow repeats, and shows that it waits. Every answer arrives here, as an error.
acme.axios.interceptors.response.clear()
acme.axios.interceptors.response.use(undefined, error => {
  const call = calls.getStore()
  if (!call || !error.response) throw error
  const { status, headers, data } = error.response
  const isNonce = (body: ProblemDocument) => problemOf(body).code === 'badNonce'
  if (status < 300) {
    if (call.refusal && isNonce(call.refusal.body)) call.refusal = null
  } else if (!(call.refusal && isNonce(data))) call.refusal = { status, body: data, retryAfter: headers['retry-after'] }
  return error.response
})

/** Resolves every name but the authority's own to public addresses only: its answers name the next addresses. */
const lookupFor =
  (host: string): LookupFunction =>
  (name, options, done) =>
    lookup(name, options, (error, address, family) => {
      const all = (Array.isArray(address) ? address : [{ address }]) as { address: string }[]
      const isRefused = !error && name !== host && all.some(one => !isPublicAddress(one.address))
      done(isRefused ? Object.assign(new Error('not public'), { code: 'ENOTFOUND' }) : error, address as string, family)
    })

/**
 * Runs calls to the authority with this directory, whose certificate one of the system's authorities or of `ca` (PEM) has signed. A call
 * rejects with AuthorityError, in whose texts nothing of a request is repeated.
 */
export function authorityCalls(directoryUrl: string, ca: string | null): <T>(work: () => Promise<T>) => Promise<T> {
  const host = new URL(directoryUrl).hostname
  // Made once: it takes longer than a request.
  const trust = ca === null ? {} : { secureContext: createSecureContext({ ca: [...rootCertificates, ca] }) }
  return async work => {
    // Requests of one call share a connection. None is used later, when the authority may have closed it.
    const agent = new Agent({ keepAlive: true, lookup: lookupFor(host), ...trust })
    const call: Call = { agent, host, signal: deadlineSignal(authorityRules.callMs), refusal: null }
    try {
      return await calls.run(call, work)
    } catch (error) {
      throw errorOf(error, call)
    } finally {
      agent.destroy()
    }
  }
}

function errorOf(error: unknown, { refusal, host, signal }: Call): AuthorityError {
  if (error instanceof AuthorityError) return error
  const { code = '', message, isAxiosError } = error as Error & { code?: string; isAxiosError?: boolean }
  const isLate = signal.aborted || code === 'ECONNABORTED' || code === 'ETIMEDOUT'
  if (isLate) return new AuthorityError('timeout', `The authority ${host} did not answer in time.`)
  if (isAxiosError && code !== 'ERR_BAD_RESPONSE')
    return new AuthorityError('unreachable', `The authority ${host} could not be reached (${code || 'unknown'}).`)
  if (!refusal)
    return new AuthorityError('invalidAnswer', `The authority ${host} sent an invalid answer (${wordsOf(message)}).`)
  const { code: problem, message: words } = problemOf(refusal.body)
  const status = `The authority ${host} answered HTTP ${refusal.status}.`
  if (refusal.status === 404) return new AuthorityError('notFound', words || status)
  return new AuthorityError(problem || codeOf(refusal.status), words || status, retryAfterMs(refusal.retryAfter))
}

/** Of a refusal without a problem; a redirect is none. */
function codeOf(status: number): string {
  if (status >= 500) return 'serverInternal'
  return status < 400 ? 'invalidAnswer' : 'malformed'
}

/** The library's own sentences; nothing that could contain a request. */
const wordsOf = (message: string): string => /^[\w :"'-]{1,100}$/.exec(message)?.[0] ?? 'unknown'
