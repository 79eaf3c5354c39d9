import type { z } from 'zod'
import { bodyBudgets, jsonBodyBytes } from '../../policy/body-budgets.ts'
import { CodedError, type ErrorCode, isErrorCode } from '../../policy/errors.ts'
import { networkOf } from '../http/address.ts'
import { admitBody, inviteBody, parseBody, readBody, unstorableAt } from '../http/body.ts'
import { BodyBudget } from '../http/body-budget.ts'
import { isDense } from '../http/body-measure.ts'
import { parseInThread } from '../http/body-threads.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Endpoint } from './endpoint.ts'

/** Bounds the memory of all large JSON bodies, from their arrival until their request has been handled. */
const largeBodies = new BodyBudget(bodyBudgets.json)

/** The query parameters, parsed by the endpoint's schema. */
export function takeQuery({ query }: Endpoint, { search }: Exchange): unknown {
  return query && accept(query, search)
}

/**
 * The body, parsed by the endpoint's schema; undefined when the endpoint has none, or reads it itself. A large one is charged to
 * `userId`, or to the address if the caller is anonymous.
 */
export async function takeBody(endpoint: Endpoint, exchange: Exchange, userId: string | undefined): Promise<unknown> {
  const { request, response } = exchange
  const { body, upload, maxBodyBytes = upload?.maxBytes ?? jsonBodyBytes.most } = endpoint
  if (request.method === 'GET') return undefined
  if (upload && Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw new CodedError(upload.tooLarge)
  admitBody(request, maxBodyBytes)
  if (!body) return undefined
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  const mayBeLarge = Number(length ?? (chunked ? maxBodyBytes : 0)) > jsonBodyBytes.most
  const account = userId ?? networkOf(exchange.address)
  const charge = largeBodies.charge([account])
  exchange.onEnd(() => charge.end())
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
  return bytes.length > jsonBodyBytes.most || isDense(bytes)
    ? parseInThread(bytes, form, account, exchange.signal)
    : parseBody(bytes, form)
}

/**
 * Throws the code that the field carries, else INVALID_INPUT for a text that cannot be stored, else INVALID_PARAMETERS; never with
 * the validator's own message.
 */
function accept(schema: z.ZodObject, value: Record<string, unknown>): unknown {
  const parsed = schema.safeParse(value)
  if (parsed.success) {
    const checkedHere = Object.entries(parsed.data).filter(
      ([name]) => !(schema.shape[name] as z.ZodType).meta()?.checksTexts,
    )
    const unstorable = unstorableAt(Object.fromEntries(checkedHere))
    if (unstorable) throw new CodedError(codeOfField(schema, value, unstorable) ?? 'INVALID_INPUT')
    return parsed.data
  }
  const [issue] = parsed.error.issues
  if (issue && isErrorCode(issue.message)) throw new CodedError(issue.message)
  const path = (issue?.path ?? []).map(String)
  if (path.length > 0 && unstorableAt(valueAt(value, path))) throw new CodedError('INVALID_INPUT')
  const field = path.join('.')
  throw new CodedError('INVALID_PARAMETERS', field && `The parameter "${field}" is missing or invalid.`)
}

/** The schema's code for a value that no field accepts; undefined if the field has none. A field that was sent is never called missing. */
function codeOfField(schema: z.ZodObject, value: unknown, path: readonly string[]): ErrorCode | undefined {
  const parsed = schema.safeParse(withValue(value, path, Symbol('invalid for every type')))
  const issue = parsed.error?.issues.find(({ path: where }) =>
    path.every((name, depth) => String(where[depth]) === name),
  )
  return issue && isErrorCode(issue.message) && !issue.message.startsWith('MISSING_') ? issue.message : undefined
}

const valueAt = (value: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((inside, name) => (inside as Record<string, unknown> | undefined)?.[name], value)

/** A copy with another value at an existing path. */
function withValue(value: unknown, [name, ...rest]: readonly string[], other: unknown): unknown {
  if (name === undefined) return other
  const copy = Array.isArray(value) ? [...value] : { ...(value as object) }
  const inside = (copy as Record<string, unknown>)[name]
  return Object.assign(copy, { [name]: withValue(inside, rest, other) })
}
