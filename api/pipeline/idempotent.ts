import { createHash } from 'node:crypto'
import { confirmOperation } from '../../db/acceptance.ts'
import { type Db, transaction } from '../../db/database.ts'
import {
  claimIdempotencyKey,
  type IdempotencyClaim,
  type KeyedRequest,
  releaseIdempotencyKey,
  storeAnswer,
} from '../../db/idempotency.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { ApiError } from '../../policy/errors.ts'
import type { Exchange } from '../http/call.ts'
import { toApiError } from '../http/respond.ts'
import type { Caller } from './authenticate.ts'

/** Codes that say nothing about the request itself, so that the next try deserves a new answer (contract 1.20). */
const passing = [401, 403, 429]

/** Codes that `idempotent` throws. */
export const idempotencyErrors = ['IDEMPOTENCY_KEY_REUSED', 'IDEMPOTENCY_IN_PROGRESS', 'INVALID_PARAMETERS'] as const

/** How the OpenAPI document tells of it. */
export const idempotencyHeader = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'The same key with the same request is answered alike for 24 hours, and done once.',
  // HTTP takes spaces at its ends away.
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]([ -~]*[!-~])?$' },
}

/** The header `Idempotency-Key`; undefined when the client does not ask. Throws INVALID_PARAMETERS for an unusable one. */
export function idempotencyKeyOf({ request }: Exchange): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(key))
    throw new ApiError('INVALID_PARAMETERS', 'Idempotency-Key must be 1 to 255 printable characters.')
  return key
}

/**
 * Does `work` once per key, and gives its answer again to whoever repeats the request. `work` is handed a function that
 * stores the answer, to be called inside the transaction that makes it true.
 */
export async function idempotent<T extends object>(
  db: Db,
  exchange: Exchange,
  request: KeyedRequest,
  work: (store: StoreAnswer<T>) => Promise<T>,
): Promise<T> {
  const found = await claimed(db, request)
  if (found.state === 'running') throw new ApiError('IDEMPOTENCY_IN_PROGRESS')
  if (found.state === 'reused') throw new ApiError('IDEMPOTENCY_KEY_REUSED')
  if (found.state === 'answered') {
    Object.assign(exchange.headers, found.answer.headers, { 'Idempotent-Replayed': 'true' })
    if (found.answer.status === 200) return found.answer.body as T
    throw new ApiError(found.answer.body.code as ApiError['code'], found.answer.body.message as string)
  }
  try {
    return await work(async (trx, value) => {
      const answer = { status: 200, body: value as Record<string, unknown>, headers: exchange.headers }
      // Whoever has the key now does it; this request came to a stop for so long that it was given up.
      if (!(await storeAnswer(trx, request, answer))) throw new ApiError('IDEMPOTENCY_IN_PROGRESS')
    })
  } catch (thrown) {
    const { status, code, message } = toApiError(thrown)
    // Where it cannot be given back it is given up by time; the answer is the same.
    if (status >= 500 || passing.includes(status))
      await releaseIdempotencyKey(db, request).catch(ignoreError('it is given up by time'))
    else await storeAnswer(db, request, { status, body: { code, message }, headers: {} })
    throw thrown
  }
}

/** Whose key it is: an answer may hold what a limited credential cannot ask for itself. */
export function keyedBy({ user, uploadToken, scopes, resources, prefixes }: Caller) {
  const isLimited = uploadToken !== undefined || [scopes, resources, prefixes].some(limit => limit !== null)
  return { userId: user.id, credentialId: uploadToken?.id ?? user.credential_id, isLimited }
}

/** As `claimIdempotencyKey`; an answer that speaks of an operation is given again only once that is confirmed, and not when it was undone. */
async function claimed(db: Db, request: KeyedRequest): Promise<IdempotencyClaim> {
  const found = await claimIdempotencyKey(db, request)
  if (found.state !== 'answered' || found.operationId === null) return found
  return (await confirmOperation(db, found.operationId)) ? found : claimIdempotencyKey(db, request)
}

interface JsonCall {
  caller: Caller
  body: unknown
  exchange: Exchange
}

/** Writes the answer down, inside the transaction that makes it true. */
export type StoreAnswer<T> = (trx: Db, value: T) => Promise<void>

/** A command with a JSON body: once per key where the client gives one. */
export async function onceByKey<T extends object>(
  { caller, body, exchange }: JsonCall,
  route: string,
  db: Db,
  work: (store: StoreAnswer<T>) => Promise<T>,
): Promise<T> {
  const key = idempotencyKeyOf(exchange)
  if (key === undefined) return work(async () => {})
  const fingerprint = createHash('sha256').update(JSON.stringify(body)).digest('hex')
  return idempotent(db, exchange, { ...keyedBy(caller), key, route, fingerprint }, work)
}

/** As `onceByKey`, of a command that is done in one transaction, with its answer. */
export function inOneTransaction<T extends object>(
  call: JsonCall,
  route: string,
  db: Db,
  work: (trx: Db) => Promise<T>,
): Promise<T> {
  return onceByKey<T>(call, route, db, store =>
    transaction(db, async trx => {
      const answer = await work(trx)
      await store(trx, answer)
      return answer
    }),
  )
}
