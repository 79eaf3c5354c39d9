import type { Db } from './database.ts'

/** A first request that has not ended after this is given up, in minutes. */
const givenUpMinutes = 5

export interface StoredAnswer {
  status: number
  body: Record<string, unknown>
  headers: Record<string, string>
}

export interface KeyedRequest {
  userId: string
  /** Which key, session or upload token asks. */
  credentialId: string
  /** It may do less than its account: what another one was answered is not for it. */
  isLimited: boolean
  key: string
  /** Method and path of the endpoint. */
  route: string
  /** What the body was: a hash. */
  fingerprint: string
}

export type Claim =
  | { state: 'first' }
  | { state: 'running' }
  | { state: 'reused' }
  | { state: 'answered'; answer: StoredAnswer }

/** Takes a key for its first request, or says what became of it. Keys live 24 h. */
export async function claim(db: Db, request: KeyedRequest): Promise<Claim> {
  const { rows } = await db.raw(
    `insert into idempotency_keys as k (user_id, credential_id, key, route, fingerprint) values (?, ?, ?, ?, ?)
     on conflict (user_id, key) do update set
       credential_id = excluded.credential_id, route = excluded.route, fingerprint = excluded.fingerprint, status = null, body = null, headers = null, created_at = now()
     where k.created_at < now() - interval '24 hours'
        or (k.status is null and k.created_at < now() - make_interval(mins => ?))
     returning 1`,
    [request.userId, request.credentialId, request.key, request.route, request.fingerprint, givenUpMinutes],
  )
  if (rows.length > 0) return { state: 'first' }
  const row = await db('idempotency_keys').where({ user_id: request.userId, key: request.key }).first()
  if (!row) return { state: 'running' }
  const isForeign = row.credential_id !== null && row.credential_id !== request.credentialId
  if (isForeign && request.isLimited) return { state: 'reused' }
  if (row.route !== request.route || row.fingerprint !== request.fingerprint) return { state: 'reused' }
  if (row.status === null) return { state: 'running' }
  return { state: 'answered', answer: { status: row.status, body: JSON.parse(row.body), headers: row.headers ?? {} } }
}

/** Keeps the answer of the first request for those that come again; as a text, for jsonb would change the order of its keys. */
export async function keep(db: Db, { userId, key }: KeyedRequest, answer: StoredAnswer): Promise<void> {
  await db('idempotency_keys')
    .where({ user_id: userId, key })
    .update({
      status: answer.status,
      body: JSON.stringify(JSON.stringify(answer.body)),
      headers: JSON.stringify(answer.headers),
    })
}

/** Gives the key back: the first request ended in a way that is worth another try. */
export async function release(db: Db, { userId, key }: KeyedRequest): Promise<void> {
  await db('idempotency_keys').where({ user_id: userId, key, status: null }).delete()
}

export async function sweepIdempotency(db: Db): Promise<void> {
  await db('idempotency_keys').whereRaw(`created_at < now() - interval '24 hours'`).delete()
}
