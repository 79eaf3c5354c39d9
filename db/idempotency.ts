import { newId } from '../policy/ids.ts'
import { retentionTimes } from '../policy/retention.ts'
import type { Db } from './database.ts'
import { deleteExpired } from './expired-rows.ts'

export interface StoredAnswer {
  status: number
  body: Record<string, unknown>
  headers: Record<string, string>
}

export interface KeyedRequest {
  userId: string
  /** The key, session or upload token of the caller. */
  credentialId: string
  /** The credential may do less than its account: answers to other credentials are not for it. */
  isLimited: boolean
  key: string
  /** Method and path of the endpoint. */
  route: string
  /** A hash of the body. */
  fingerprint: string
  /** Identifies the request that holds the key: one that took too long has lost it to a later one. */
  claim?: string
}

export type IdempotencyClaim =
  | { state: 'first' }
  | { state: 'running' }
  | { state: 'reused' }
  | { state: 'answered'; answer: StoredAnswer; operationId: string | null }

/** Claims a key for its first request and sets `request.claim`, or returns what became of that first request. Keys live 24 h. */
export async function claimIdempotencyKey(db: Db, request: KeyedRequest): Promise<IdempotencyClaim> {
  request.claim = newId()
  const { rows } = await db.raw(
    `insert into idempotency_keys as k (user_id, credential_id, key, route, fingerprint, claim) values (?, ?, ?, ?, ?, ?)
     on conflict (user_id, key) do update set
       credential_id = excluded.credential_id, route = excluded.route, fingerprint = excluded.fingerprint,
       claim = excluded.claim, operation_id = null, status = null, body = null, headers = null, created_at = now()
     where k.created_at < now() - interval '${retentionTimes.idempotencyHours} hours'
        or (k.status is null and k.created_at < now() - make_interval(mins => ?))
     returning 1`,
    [
      request.userId,
      request.credentialId,
      request.key,
      request.route,
      request.fingerprint,
      request.claim,
      retentionTimes.idempotencyGivenUpMinutes,
    ],
  )
  if (rows.length > 0) return { state: 'first' }
  const row = await db('idempotency_keys').where({ user_id: request.userId, key: request.key }).first()
  if (!row) return { state: 'running' }
  const isForeign = row.credential_id !== null && row.credential_id !== request.credentialId
  if (isForeign && request.isLimited) return { state: 'reused' }
  if (row.route !== request.route || row.fingerprint !== request.fingerprint) return { state: 'reused' }
  if (row.status === null) return { state: 'running' }
  const answer = { status: row.status, body: JSON.parse(row.body), headers: row.headers ?? {} }
  return { state: 'answered', answer, operationId: row.operation_id }
}

/**
 * Stores the answer of the first request for its repetitions; as a text, because jsonb would change the order of its keys. False when
 * another request holds the key now.
 */
export async function storeAnswer(
  db: Db,
  { userId, key, claim }: KeyedRequest,
  answer: StoredAnswer,
): Promise<boolean> {
  const updated = await db('idempotency_keys')
    .where({ user_id: userId, key, claim: claim ?? null })
    .update({
      status: answer.status,
      body: JSON.stringify(JSON.stringify(answer.body)),
      headers: JSON.stringify(answer.headers),
      operation_id: answer.headers['X-Operation-Id'] ?? null,
    })
  return updated === 1
}

/** Frees the key: the first request ended in a way that is worth another try. */
export async function releaseIdempotencyKey(db: Db, { userId, key, claim }: KeyedRequest): Promise<void> {
  await db('idempotency_keys')
    .where({ user_id: userId, key, claim: claim ?? null, status: null })
    .delete()
}

/** Forgets what is stored about an operation that failed through no fault of the caller: the next try deserves a new answer. */
export async function forgetAnswerOf(db: Db, operationId: string): Promise<void> {
  await db('idempotency_keys').where({ operation_id: operationId }).delete()
}

export function sweepIdempotency(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'idempotency_keys',
    when: `old.created_at < now() - interval '${retentionTimes.idempotencyHours} hours'`,
  })
}
