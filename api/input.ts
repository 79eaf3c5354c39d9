import type { z } from 'zod'
import { ApiError, isErrorCode } from '../policy/errors.ts'
import { admitBody, assertStorable, inviteBody, ordinaryBodyBytes, parseBody, readBody } from './body.ts'
import { BodyBudget } from './body-budget.ts'
import { parseAside } from './body-threads.ts'
import type { Exchange } from './call.ts'
import type { Endpoint } from './endpoint.ts'

/** What large JSON bodies hold in memory at once. */
const largeBodies = new BodyBudget(256 * 1024 * 1024)

/** The query parameters as the endpoint's schema sees them. */
export function takeQuery({ query }: Endpoint, { search }: Exchange): unknown {
  return query && accept(query, search)
}

/** The body as the endpoint's schema sees it; undefined when the endpoint has none, or reads it itself. */
export async function takeBody(endpoint: Endpoint, { request, response }: Exchange): Promise<unknown> {
  const { body, upload, maxBodyBytes = upload?.maxBytes ?? ordinaryBodyBytes } = endpoint
  if (request.method === 'GET') return undefined
  if (upload && Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw new ApiError(upload.tooLarge)
  admitBody(request, maxBodyBytes)
  if (!body) return undefined
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  const bytes = Number(length ?? (chunked ? maxBodyBytes : 0))
  const take = async () => {
    inviteBody(request, response)
    return parsed(await readBody(request, maxBodyBytes), endpoint)
  }
  const value = bytes > ordinaryBodyBytes ? await largeBodies.with(bytes, take) : await take()
  if (!value) throw new ApiError('UPLOAD_BUSY', 'Too many large bodies are being read. Try again in a moment.', 5)
  return accept(body, value)
}

async function parsed(bytes: Buffer<ArrayBuffer>, { namesAreData: anyName, holdsFile: file }: Endpoint) {
  const form = { anyName, file }
  return bytes.length > ordinaryBodyBytes ? parseAside(bytes, form) : parseBody(bytes, form)
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
