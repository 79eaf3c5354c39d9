import { newApiKey } from '../../policy/accounts/credentials.ts'
import type { Scope } from '../../policy/accounts/scopes.ts'
import { authorizationTerms } from '../../policy/accounts/sign-in-terms.ts'
import { CodedError } from '../../policy/errors.ts'
import { type Db, transaction } from '../database.ts'
import { announceAccess } from './accounts.ts'

export interface AuthorizationRow {
  code_hash: Buffer
  display: string
  client: string
  redirect_uri: string
  scopes: Scope[]
  challenge: string
  user_id: string | null
  decision: 'granted' | 'denied' | null
  attempts: number
  key_id: string | null
  claimed_at: Date | null
  expires_at: Date
}

export type NewAuthorization = Pick<
  AuthorizationRow,
  'code_hash' | 'display' | 'client' | 'redirect_uri' | 'scopes' | 'challenge'
>

export async function beginAuthorization(db: Db, authorization: NewAuthorization): Promise<void> {
  const expires = db.raw('now() + make_interval(secs => ?)', [authorizationTerms.seconds])
  await db('authorizations').insert({ ...authorization, expires_at: expires })
}

/** An authorization that waits for a person's decision; undefined when unknown, expired, or decided. */
export async function openAuthorization(db: Db, codeHash: Buffer): Promise<AuthorizationRow | undefined> {
  return db('authorizations').where({ code_hash: codeHash, decision: null }).whereRaw('expires_at > now()').first()
}

/** Records the person's decision, once; undefined when it is decided or expired. */
export async function decideAuthorization(
  db: Db,
  codeHash: Buffer,
  userId: string,
  decision: 'granted' | 'denied',
): Promise<AuthorizationRow | undefined> {
  const [row] = await transaction(db, trx =>
    trx('authorizations')
      .where({ code_hash: codeHash, decision: null })
      .whereRaw('expires_at > now()')
      .update({ user_id: userId, decision })
      .returning('*'),
  )
  return row
}

export interface KeyClaim {
  codeHash: Buffer
  /** Checks the rest of the claim against the row; null = valid. Each wrong claim spends one of five attempts. */
  refusal(row: AuthorizationRow): 'INVALID_VERIFIER' | 'INVALID_REDIRECT_URI' | 'INVALID_REQUEST' | null
  /** Joins the transaction of a claim that succeeds. */
  record?(trx: Db, granted: GrantedKey): Promise<void>
}

interface GrantedKey {
  keyId: string
  key: string
  userId: string
  scopes: Scope[]
  expiresAt: Date
}

/** With the address of its account. */
type ClaimedKey = GrantedKey & { email: string }

/**
 * The granted key. A claim that is repeated within a minute resolves to the same key with a new secret. Throws INVALID_GRANT,
 * also for a blocked account, AUTHORIZATION_PENDING, APIKEY_LIMIT_REACHED and the code that `refusal` returns.
 */
export async function claimKey(
  db: Db,
  masterKey: string,
  { codeHash, refusal, record }: KeyClaim,
): Promise<ClaimedKey> {
  const outcome = await transaction(db, async trx => {
    const row: AuthorizationRow | undefined = await trx('authorizations')
      .where({ code_hash: codeHash })
      .where('attempts', '<', authorizationTerms.attempts)
      .whereRaw('(expires_at > now() or claimed_at > now() - make_interval(secs => ?))', [
        authorizationTerms.graceSeconds,
      ])
      .forUpdate()
      .first()
    if (!row || row.decision === 'denied') throw new CodedError('INVALID_GRANT')
    const code = refusal(row)
    if (code) {
      await trx('authorizations').where({ code_hash: codeHash }).increment('attempts')
      return code // committed: the attempt is spent
    }
    if (row.decision === null || row.user_id === null) throw new CodedError('AUTHORIZATION_PENDING')
    // Serializes claims, so that each counts the keys of the others, and none gives a key to an account that is being blocked.
    const user = await trx('users').where({ id: row.user_id, blocked_at: null }).forUpdate().first('email')
    if (!user) throw new CodedError('INVALID_GRANT')
    const claimed = await (row.key_id ? renewSecret(trx, masterKey, row) : createGrantedKey(trx, masterKey, row))
    if (typeof claimed === 'string') return claimed
    await record?.(trx, claimed)
    return { ...claimed, email: user.email }
  })
  if (typeof outcome === 'string') throw new CodedError(outcome)
  return outcome
}

type Outcome = GrantedKey | 'APIKEY_LIMIT_REACHED'

async function createGrantedKey(trx: Db, masterKey: string, row: AuthorizationRow): Promise<Outcome> {
  const userId = row.user_id as string
  const [counted] = await trx('api_keys')
    .where({ user_id: userId, revoked_at: null })
    .whereNotNull('granted_to')
    .whereRaw('expires_at > now()')
    .count()
  if (Number(counted?.count) >= authorizationTerms.keys) {
    const grace = trx.raw('greatest(expires_at, now() + make_interval(secs => ?))', [authorizationTerms.graceSeconds])
    await trx('authorizations').where({ code_hash: row.code_hash }).update({ expires_at: grace })
    return 'APIKEY_LIMIT_REACHED'
  }
  const { id, key, hash } = newApiKey(masterKey, userId)
  const granted = { id, hash, user_id: userId, name: row.client, scopes: row.scopes, granted_to: row.client }
  const expires = trx.raw('now() + make_interval(days => ?)', [authorizationTerms.keyDays])
  const [keyRow] = await trx('api_keys')
    .insert({ ...granted, expires_at: expires })
    .returning('expires_at')
  await trx('authorizations').where({ code_hash: row.code_hash }).update({ key_id: id, claimed_at: trx.fn.now() })
  return { keyId: id, key, userId, scopes: row.scopes, expiresAt: keyRow.expires_at }
}

async function renewSecret(trx: Db, masterKey: string, row: AuthorizationRow): Promise<Outcome> {
  const userId = row.user_id as string
  const { key, hash } = newApiKey(masterKey, userId)
  const [renewed] = await trx('api_keys')
    .where({ id: row.key_id, revoked_at: null })
    .whereRaw('now() <= ?::timestamptz + make_interval(secs => ?)', [row.claimed_at, authorizationTerms.graceSeconds])
    .update({ hash })
    .returning(['id', 'expires_at'])
  if (!renewed) throw new CodedError('INVALID_GRANT')
  await announceAccess(trx, userId)
  return { keyId: renewed.id, key, userId, scopes: row.scopes, expiresAt: renewed.expires_at }
}
