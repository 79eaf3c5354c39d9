import { createHash } from 'node:crypto'
import { confirmOperation } from '../../db/acceptance.ts'
import { type Db, transaction } from '../../db/database.ts'
import {
  claimIdempotencyKey,
  type IdempotencyClaim,
  type KeyedRequest,
  releaseIdempotencyKey,
  type StoredAnswer,
  storeAnswer,
} from '../../db/idempotency.ts'
import { findOperation } from '../../db/operations/operations.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { CodedError } from '../../policy/errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { toCodedError } from '../http/respond.ts'
import type { Caller } from './authenticate.ts'

/** Statuses that say nothing about the request itself, so that the next try deserves a new answer (contract 1.20). */
const transientStatuses = [401, 403, 429]

/** Codes that `oncePerKey` throws. */
export const idempotencyErrors = ['IDEMPOTENCY_KEY_REUSED', 'IDEMPOTENCY_IN_PROGRESS', 'INVALID_PARAMETERS'] as const

/** The parameter in the OpenAPI document. */
export const idempotencyHeader = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'For 24 hours, the same request with the same key is executed once and gets the same answer.',
  // HTTP strips spaces at both ends.
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]([ -~]*[!-~])?$' },
}

/** The header `Idempotency-Key`; undefined when the client sends none. Throws INVALID_PARAMETERS for an unusable one. */
export function idempotencyKeyOf({ request }: Exchange): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(key))
    throw new CodedError('INVALID_PARAMETERS', 'Idempotency-Key must be 1 to 255 printable characters.')
  return key
}

interface KeyedCall {
  caller: Caller
  exchange: Exchange
}

interface JsonCall extends KeyedCall {
  body: unknown
}

interface RequestOfKey {
  /** Undefined: the request is executed each time. */
  key: string | undefined
  /** Method and path of the endpoint. */
  route: string
  /** A hash of the body. */
  fingerprint: string
  /** True: the fingerprint contains what an upload token pins, so that another token that pins the same may repeat the request. */
  includesPins?: true
  /** True: the stored answer is repeated only once its operation has ended. */
  untilEnd?: true
}

/**
 * Runs `work` in one transaction that also stores the answer it resolves to. An CodedError as the answer is what repeated requests get
 * until the whole request has its own. `run` replaces `transaction`, as `accept` does for operations.
 */
export type InTransaction<T> = <R extends { answer: T | CodedError }>(
  work: (trx: Db) => Promise<R>,
  run?: (work: (trx: Db) => Promise<R>) => Promise<R>,
) => Promise<R>

/** A command with a JSON body that is one transaction, executed once per key if the client sends one. */
export async function idempotent<T extends object>(
  call: JsonCall,
  route: string,
  db: Db,
  work: (trx: Db) => Promise<T>,
): Promise<T> {
  return oncePerKey<T>(call, requestOf(call, route), db, async inTransaction => {
    const { answer } = await inTransaction(async trx => ({ answer: await work(trx) }))
    return answer
  })
}

/** A request with a JSON body, with the key that its client sends. */
export function requestOf({ body, exchange }: JsonCall, route: string): RequestOfKey {
  const key = idempotencyKeyOf(exchange)
  const hash = () => createHash('sha256').update(JSON.stringify(body)).digest('hex')
  return { key, route, fingerprint: key === undefined ? '' : hash() }
}

/**
 * Runs `steps` once per key, and answers repeated requests with the stored answer: what `inTransaction` committed, else what `steps`
 * resolves to, else what it throws, unless another try may end differently.
 */
export async function oncePerKey<T extends object>(
  { caller, exchange }: KeyedCall,
  { key, route, fingerprint, includesPins, untilEnd }: RequestOfKey,
  db: Db,
  steps: (inTransaction: InTransaction<T>) => Promise<T>,
): Promise<T> {
  if (key === undefined) return steps(withoutKey(db))
  const request: KeyedRequest = { ...ownerOf(caller, includesPins), key, route, fingerprint }
  const earlier = await claimed(db, request, untilEnd)
  if (earlier.state === 'running') throw new CodedError('IDEMPOTENCY_IN_PROGRESS')
  if (earlier.state === 'reused') throw new CodedError('IDEMPOTENCY_KEY_REUSED')
  if (earlier.state === 'answered') {
    const { status, body, headers } = earlier.answer
    Object.assign(exchange.headers, headers, { 'Idempotent-Replayed': 'true' })
    if (status === 200) return body as T
    throw new CodedError(body.code as CodedError['code'], body.message as string)
  }
  /** What a transaction has stored. */
  let committed: T | CodedError | undefined
  const store = async (trx: Db, answer: T | CodedError) => {
    const { headers } = exchange
    // Otherwise this request stalled for so long that it was given up, and another one holds the key.
    if (!(await storeAnswer(trx, request, { ...answerOf(answer), headers })))
      throw new CodedError('IDEMPOTENCY_IN_PROGRESS')
  }
  const inTransaction: InTransaction<T> = async (work, run = work => transaction(db, work)) => {
    const result = await run(async trx => {
      const result = await work(trx)
      await store(trx, result.answer)
      return result
    })
    committed = result.answer
    return result
  }
  try {
    const answer = await steps(inTransaction)
    if (!committed || committed instanceof CodedError) await store(db, answer)
    return answer
  } catch (thrown) {
    const refusal = toCodedError(thrown)
    const { status } = refusal
    // A key that cannot be released is given up after a while; the answer is the same.
    if (status >= 500 || transientStatuses.includes(status))
      await releaseIdempotencyKey(db, request).catch(
        ignoreError('a key that is not released is given up after a while'),
      )
    // Once an operation is committed, its refusal names it too: the answer is repeated only while the operation is confirmed.
    else await storeAnswer(db, request, { ...answerOf(refusal), headers: committed ? exchange.headers : {} })
    throw thrown
  }
}

/** Transactions of a request without a key: no answer is stored. */
export function withoutKey<T>(db: Db): InTransaction<T> {
  return (work, run = work => transaction(db, work)) => run(work)
}

const answerOf = (answer: object): Pick<StoredAnswer, 'status' | 'body'> =>
  answer instanceof CodedError
    ? { status: answer.status, body: { code: answer.code, message: answer.message } }
    : { status: 200, body: answer as Record<string, unknown> }

/** Whose key it is: an answer may contain what a limited credential is not allowed to read. */
function ownerOf({ user, uploadToken, scopes, resources, prefixes }: Caller, includesPins = false) {
  const isLimited = uploadToken ? !includesPins : [scopes, resources, prefixes].some(limit => limit !== null)
  return { userId: user.id, credentialId: uploadToken?.id ?? user.credential_id, isLimited }
}

/** As `claimIdempotencyKey`; an answer about an operation is repeated only once that is confirmed, and not if it was undone. */
async function claimed(db: Db, request: KeyedRequest, untilEnd = false): Promise<IdempotencyClaim> {
  const earlier = await claimIdempotencyKey(db, request)
  if (earlier.state !== 'answered' || earlier.operationId === null) return earlier
  if (!(await confirmOperation(db, earlier.operationId))) return claimIdempotencyKey(db, request)
  const operation = untilEnd && (await findOperation(db, earlier.operationId))
  return operation && operation.finished_at === null ? { state: 'running' } : earlier
}
