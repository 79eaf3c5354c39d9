import type { z } from 'zod'
import { ApiError, isErrorCode } from '../policy/errors.ts'
import { admitBody, assertStorable, inviteBody, parseObject, readBody } from './body.ts'
import type { Exchange } from './call.ts'
import type { Endpoint } from './endpoint.ts'

const jsonBodyBytes = 1024 * 1024

/** The query parameters as the endpoint's schema sees them. */
export function takeQuery({ query }: Endpoint, { search }: Exchange): unknown {
  return query && accept(query, search)
}

/** The body as the endpoint's schema sees it; undefined when the endpoint has none, or reads it itself. */
export async function takeBody(endpoint: Endpoint, { request, response }: Exchange): Promise<unknown> {
  const { body, upload, maxBodyBytes = upload?.maxBytes ?? jsonBodyBytes } = endpoint
  if (request.method === 'GET') return undefined
  if (upload && Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw new ApiError(upload.tooLarge)
  admitBody(request, maxBodyBytes)
  if (!body) return undefined
  inviteBody(request, response)
  return accept(body, parseObject(await readBody(request, maxBodyBytes), endpoint.namesAreData))
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
