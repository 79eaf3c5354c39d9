import { newApiKey } from '../../policy/accounts/credentials.ts'
import type { Scope } from '../../policy/accounts/scopes.ts'
import { sessionSkewSeconds, signSession } from '../../policy/accounts/sessions.ts'
import { newId, newUserId } from '../../policy/ids.ts'
import { retentionTimes } from '../../policy/retention.ts'
import { batched } from '../batched.ts'
import { type Db, transaction } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { statement } from '../statement.ts'

export interface UserRow {
  id: string
  name: string
  email: string
  locale: string
  plan: string
  plan_ends_at: Date | null
  blocked_at: Date | null
  created_at: Date
}

/** An account with the rights of the credential that named it; null = no restriction. */
export interface CredentialRow extends UserRow {
  credential_id: string
  scopes: Scope[] | null
  resources: string[] | null
  /** Prefixes of object names; see `api_keys.prefixes`. */
  prefixes: string[] | null
  /** When it expires. */
  credential_expires_at: Date | null
  /** Tokens of language models per UTC day; null = as many as the account. */
  ai_tokens_per_day: number | null
}

const user = 'u.id, u.name, u.email, u.locale, u.plan, u.plan_ends_at, u.blocked_at, u.created_at'

/** With the limit Postgres looks into the index for each key, however many accounts there are. */
const byKeyHash = statement<CredentialRow & { hash: Buffer }>(
  'accounts.by-key-hash',
  `select found.* from unnest($1::bytea[]) as wanted (hash) cross join lateral (
     select k.hash, ${user}, k.id as credential_id, k.scopes, k.resources, k.prefixes,
            k.expires_at as credential_expires_at, k.ai_tokens_per_day::float8
       from api_keys k join users u on u.id = k.user_id
      where k.hash = wanted.hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
      limit 1) found`,
)

const bySession = statement<CredentialRow>(
  'accounts.by-session',
  `select ${user}, s.id as credential_id, null::text[] as scopes, null::text[] as resources,
          null::text[] as prefixes, s.expires_at + make_interval(secs => ${sessionSkewSeconds}) as credential_expires_at,
          null::float8 as ai_tokens_per_day
     from sessions s join users u on u.id = s.user_id
    where s.id = $1 and s.user_id = $2 and s.revoked_at is null
      and s.expires_at > now() - make_interval(secs => ${sessionSkewSeconds})`,
)

const byKeyHashBatched = batched<Buffer, CredentialRow | undefined>(
  async (db, _, hashes) => {
    const credentials = new Map(
      (await byKeyHash(db, [hashes])).map(({ hash, ...credential }) => [hash.toString('base64'), credential]),
    )
    return hashes.map(hash => credentials.get(hash.toString('base64')))
  },
  { maxConcurrent: 2, isRead: true },
)

/**
 * The account of a live key, by the key's SHA-256; the account may be blocked. Undefined when the key is revoked, expired or unknown. Keys
 * that are looked up together share a statement.
 */
export function findUserByKeyHash(db: Db, hash: Buffer): Promise<CredentialRow | undefined> {
  return byKeyHashBatched(db, 'all', hash)
}

/** The account of a live session; the account may be blocked. Undefined when the session is revoked, expired or unknown. */
export async function findUserBySession(db: Db, sessionId: string, userId: string): Promise<CredentialRow | undefined> {
  return (await bySession(db, [sessionId, userId]))[0]
}

export interface NewUser {
  name: string
  email: string
  plan: string
  /** Default: that of the first sign-in. */
  locale?: string
  planEndsAt?: Date
}

/** Rejects with SQLSTATE 23505 when the address has an account; upper and lower case are the same address, as at sign-in. */
export async function createUser(db: Db, input: NewUser): Promise<UserRow> {
  const [row] = await db('users')
    .insert({
      id: newUserId(),
      name: input.name,
      email: input.email.toLowerCase(),
      plan: input.plan,
      locale: input.locale ?? 'en-US',
      locale_open: input.locale === undefined,
      plan_ends_at: input.planEndsAt ?? null,
    })
    .returning('*')
  return row
}

export async function findUser(db: Db, id: string): Promise<UserRow | undefined> {
  return db('users').where({ id }).first()
}

export async function findUserByEmail(db: Db, email: string): Promise<UserRow | undefined> {
  return db('users').whereRaw('lower(email) = lower(?)', [email]).first()
}

/** Newest first. */
export async function listUsers(db: Db, limit: number): Promise<UserRow[]> {
  return db('users').orderBy('created_at', 'desc').limit(limit)
}

export async function setPlan(db: Db, userId: string, plan: string, endsAt: Date | null): Promise<boolean> {
  return (await db('users').where({ id: userId }).update({ plan, plan_ends_at: endsAt })) === 1
}

/** A blocked account's credentials answer 401; its applications run on. `blockDeployer` also voids what it could deploy with elsewhere. */
export async function setBlocked(db: Db, userId: string, blocked: boolean): Promise<boolean> {
  return transaction(db, async trx => {
    const changed = await trx('users')
      .where({ id: userId })
      .update({ blocked_at: blocked ? trx.fn.now() : null })
    await announceAccess(trx, userId)
    return changed === 1
  })
}

/** Notifies every process that this account may see less than before: open streams are checked again. */
export async function announceAccess(db: Db, userId: string): Promise<void> {
  await db.raw(`select pg_notify('access', ?)`, [userId])
}

/** Those of these ids that belong to an account. */
export async function existingUsers(db: Db, ids: readonly string[]): Promise<Set<string>> {
  const rows: { id: string }[] = await db('users').whereIn('id', ids).select('id')
  return new Set(rows.map(({ id }) => id))
}

export interface NewKey {
  userId: string
  name?: string
  scopes?: Scope[] | null
  resources?: string[] | null
  /** Prefixes of object names, with their trailing slash. */
  prefixes?: string[] | null
  expiresAt?: Date | null
  /** Tokens of language models per UTC day. */
  aiTokensPerDay?: number | null
}

/** Issues an API key. It can be shown only now: only its hash is stored. */
export async function createKey(db: Db, masterKey: string, input: NewKey): Promise<{ id: string; key: string }> {
  const { id, key, hash } = newApiKey(masterKey, input.userId)
  await db('api_keys').insert({
    id,
    hash,
    user_id: input.userId,
    name: input.name ?? 'default',
    scopes: input.scopes ?? null,
    resources: input.resources ?? null,
    prefixes: input.prefixes ?? null,
    expires_at: input.expiresAt ?? null,
    ai_tokens_per_day: input.aiTokensPerDay ?? null,
  })
  return { id, key }
}

export interface KeyRow {
  id: string
  user_id: string
  name: string
  scopes: Scope[] | null
  resources: string[] | null
  prefixes: string[] | null
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
  /** Tokens of language models per UTC day; null = as many as the account. */
  ai_tokens_per_day: number | null
}

export async function listKeys(db: Db, userId: string): Promise<KeyRow[]> {
  return db('api_keys')
    .select('id', 'user_id', 'name', 'scopes', 'resources', 'prefixes', 'created_at', 'expires_at', 'revoked_at')
    .select(db.raw('ai_tokens_per_day::float8'))
    .where({ user_id: userId })
    .orderBy('created_at')
}

/** Every process refuses the key within a second, and its open streams end within 5. Resolves to its account; undefined without such a live key. */
export async function revokeKey(db: Db, id: string): Promise<string | undefined> {
  return revoke(db, 'api_keys', id)
}

/** Deletes keys that were revoked or expired long ago. */
export function sweepKeys(db: Db): Promise<number> {
  const when = `(old.revoked_at is not null or old.expires_at is not null)
    and least(old.revoked_at, old.expires_at) < now() - make_interval(days => :days)`
  return deleteExpired(db, { table: 'api_keys', when, values: { days: retentionTimes.endedKeyDays } })
}

/** Opens a session and returns its token. */
export async function createSession(
  db: Db,
  masterKey: string,
  input: { userId: string; lifeSeconds: number },
): Promise<{ id: string; token: string; expiresAt: Date }> {
  const session = { id: newId(), userId: input.userId, expiresAt: new Date(Date.now() + input.lifeSeconds * 1000) }
  await db('sessions').insert({ id: session.id, user_id: session.userId, expires_at: session.expiresAt })
  return { id: session.id, token: await signSession(masterKey, session), expiresAt: session.expiresAt }
}

/** As `revokeKey`, for a session. */
export async function revokeSession(db: Db, id: string): Promise<string | undefined> {
  return revoke(db, 'sessions', id)
}

async function revoke(db: Db, table: 'api_keys' | 'sessions', id: string): Promise<string | undefined> {
  return transaction(db, async trx => {
    const [revoked] = await trx(table).where({ id, revoked_at: null }).update({ revoked_at: trx.fn.now() }, ['user_id'])
    if (revoked) await announceAccess(trx, revoked.user_id)
    return revoked?.user_id
  })
}
