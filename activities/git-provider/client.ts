import { MiB } from '../../lib/bytes.ts'
import { readCapped } from '../../lib/read-capped.ts'
import { CodedError } from '../../policy/errors.ts'

interface ProviderRequest {
  token?: string
  /** Sent as JSON, with POST; without it the request is a GET. */
  body?: object
  deadline: AbortSignal
}

export interface ProviderAnswer {
  status: number
  body: unknown
}

/** One request below a base address. Rejects with VALIDATION_TIMEOUT, FAILED_TO_FETCH or VALIDATION_FAILED. */
export type SendRequest = (path: string, request: ProviderRequest) => Promise<ProviderAnswer>

const maxBytes = 4 * MiB
const maxRedirects = 3

/** A client of one server only: it follows redirects within that server, so that no token goes elsewhere. */
export function providerClient(baseUrl: string): SendRequest {
  return async (path, request) => {
    let url = new URL(baseUrl + path)
    for (let redirects = 0; redirects <= maxRedirects; redirects++) {
      const response = await send(url, request)
      const location = isRedirect(response.status) ? response.headers.get('location') : null
      if (location === null) return { status: response.status, body: await bodyOf(response, request.deadline) }
      await response.body?.cancel()
      const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined
      if (!next || next.origin !== url.origin || request.body) break
      url = next
    }
    throw new CodedError('VALIDATION_FAILED', 'The git provider redirects to another server, or too often.')
  }
}

const isRedirect = (status: number): boolean => [301, 302, 303, 307, 308].includes(status)

async function send(url: URL, { token, body, deadline }: ProviderRequest): Promise<Response> {
  const headers: Record<string, string> = {
    Accept: url.pathname.includes('/login/') ? 'application/json' : 'application/vnd.github+json',
    'User-Agent': 'berth',
    'X-GitHub-Api-Version': '2022-11-28',
  }
  if (token) headers.Authorization = `Bearer ${token}`
  if (body) headers['Content-Type'] = 'application/json'
  const method = body ? 'POST' : 'GET'
  const sent = body ? JSON.stringify(body) : undefined
  const response = await withCode(
    fetch(url, { method, headers, body: sent, redirect: 'manual', signal: deadline }),
    deadline,
  )
  if (response.status < 500 && !isBusy(response)) return response
  await response.body?.cancel()
  throw new CodedError('FAILED_TO_FETCH', `The git provider answered ${response.status}. Try again.`)
}

/** Whether there were too many requests, which the provider may also report with 403. */
function isBusy({ status, headers }: Response): boolean {
  return (
    status === 429 || (status === 403 && (headers.has('retry-after') || headers.get('x-ratelimit-remaining') === '0'))
  )
}

async function bodyOf(response: Response, deadline: AbortSignal): Promise<unknown> {
  const text = await withCode(textOf(response), deadline)
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the schema will reject it
  }
}

async function textOf(response: Response): Promise<string> {
  const bytes = await readCapped(response.body, maxBytes)
  if (!bytes) throw new CodedError('VALIDATION_FAILED', 'The answer of the git provider is too large.')
  return bytes.toString('utf8')
}

/** Maps network errors to codes; the cause may contain addresses and is dropped. */
async function withCode<T>(work: Promise<T>, deadline: AbortSignal): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof CodedError) throw error
    throw new CodedError(deadline.aborted ? 'VALIDATION_TIMEOUT' : 'FAILED_TO_FETCH')
  }
}
