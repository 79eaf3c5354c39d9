import type { z } from 'zod'
import { bodyBudgets } from '../../policy/body-budgets.ts'
import { ApiError, isErrorCode } from '../../policy/errors.ts'
import { networkOf } from '../http/address.ts'
import { admitBody, assertStorable, inviteBody, ordinaryBodyBytes, parseBody, readBody } from '../http/body.ts'
import { BodyBudget } from '../http/body-budget.ts'
import { parseAside } from '../http/body-threads.ts'
import type { Exchange } from '../http/call.ts'
import type { Endpoint } from './endpoint.ts'

/** What large JSON bodies hold in memory at once, and what was read of them until it was acted upon. */
const largeBodies = new BodyBudget(bodyBudgets.json)

/** The query parameters as the endpoint's schema sees them. */
export function takeQuery({ query }: Endpoint, { search }: Exchange): unknown {
  return query && accept(query, search)
}

/**
 * The body as the endpoint's schema sees it; undefined when the endpoint has none, or reads it itself. A large one counts to the share
 * of `userId`, or of the address where nobody is known.
 */
export async function takeBody(endpoint: Endpoint, exchange: Exchange, userId: string | undefined): Promise<unknown> {
  const { request, response } = exchange
  const { body, upload, maxBodyBytes = upload?.maxBytes ?? ordinaryBodyBytes } = endpoint
  if (request.method === 'GET') return undefined
  if (upload && Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw new ApiError(upload.tooLarge)
  admitBody(request, maxBodyBytes)
  if (!body) return undefined
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  const mayBeLarge = Number(length ?? (chunked ? maxBodyBytes : 0)) > ordinaryBodyBytes
  const account = userId ?? networkOf(exchange.address)
  const charge = largeBodies.charge([account])
  exchange.afterwards(() => charge.end())
  try {
    inviteBody(request, response)
    const bytes = await readBody(request, maxBodyBytes, mayBeLarge ? { charge } : undefined)
    return accept(body, await parsed(bytes, endpoint, account, exchange))
  } catch (error) {
    charge.end()
    throw error
  }
}

async function parsed(
  bytes: Buffer<ArrayBuffer>,
  { namesAreData: anyName, holdsFile: file }: Endpoint,
  account: string,
  exchange: Exchange,
): Promise<Record<string, unknown>> {
  const form = { anyName, file }
  return bytes.length > ordinaryBodyBytes ? parseAside(bytes, form, account, exchange.gone) : parseBody(bytes, form)
}

/** Throws the code that the field carries, else INVALID_PARAMETERS; never the validator's words. */
function accept(schema: z.ZodObject, value: unknown): unknown {
  const parsed = schema.safeParse(value)
  if (parsed.success) {
    assertStorable(parsed.data)
    return parsed.data
  }
  const [issue] = parsed.error.issues
  if (issue && isErrorCode(issue.message)) throw new ApiError(issue.message)
  const field = issue?.path.join('.')
  throw new ApiError('INVALID_PARAMETERS', field && `The parameter "${field}" is missing or not of the right form.`)
}
