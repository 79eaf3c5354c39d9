import { sessionSkewSeconds } from '../../../policy/accounts/sessions.ts'
import type { UploadPins } from '../../../policy/objects/uploads/upload-tokens.ts'
import { retentionTimes } from '../../../policy/retention.ts'
import type { CredentialRow } from '../../accounts/accounts.ts'
import type { Db } from '../../database.ts'
import { deleteExpired } from '../../expired-rows.ts'
import { statement } from '../../statement.ts'

/** A live upload token: the fields it pins, and its number of uses. */
export interface UploadToken {
  id: string
  pins: UploadPins
  maxUses: number
}

type TokenRow = CredentialRow & { token_id: string; pins: UploadPins; max_uses: number }

const byHash = statement<TokenRow>(
  'upload-tokens.by-hash',
  `select u.id, u.name, u.email, u.locale, u.plan, u.plan_ends_at, u.blocked_at, u.created_at,
          t.credential_id, array['blob:write'] as scopes, null::text[] as resources, k.prefixes,
          t.expires_at as credential_expires_at, null::float8 as ai_tokens_per_day, t.id as token_id, t.pins, t.max_uses
     from upload_tokens t join users u on u.id = t.owner_id
     left join api_keys k on k.id = t.credential_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     left join sessions s on s.id = t.credential_id and s.revoked_at is null
          and s.expires_at > now() - make_interval(secs => ${sessionSkewSeconds})
    where t.hash = $1 and t.expires_at > now() and (k.id is not null or s.id is not null)`,
)

/** The account of a live token, by the token's SHA-256; the account may be blocked. Undefined when the token, or the credential that minted it, has ended. */
export async function findUploadToken(
  db: Db,
  hash: Buffer,
): Promise<{ user: CredentialRow; token: UploadToken } | undefined> {
  const [row] = await byHash(db, [hash])
  if (!row) return undefined
  const { token_id: id, pins, max_uses: maxUses, ...user } = row
  return { user, token: { id, pins, maxUses } }
}

export interface NewUploadToken {
  id: string
  ownerId: string
  /** Id of the key or session that mints it. */
  credentialId: string
  hash: Buffer
  pins: UploadPins
  lifeSeconds: number
  maxUses: number
}

/** Stores a token and resolves to when it expires: after its life, or with the credential that mints it if that is sooner. */
export async function createUploadToken(db: Db, token: NewUploadToken): Promise<Date> {
  const [row] = await db('upload_tokens').insert(
    {
      id: token.id,
      owner_id: token.ownerId,
      credential_id: token.credentialId,
      hash: token.hash,
      pins: JSON.stringify(token.pins),
      max_uses: token.maxUses,
      expires_at: db.raw(
        `least(now() + make_interval(secs => :life), (select expires_at from api_keys where id = :credential),
               (select expires_at + make_interval(secs => :skew) from sessions where id = :credential))`,
        { life: token.lifeSeconds, credential: token.credentialId, skew: sessionSkewSeconds },
      ),
    },
    ['expires_at'],
  )
  return row.expires_at
}

const use = statement<{ used: number }>(
  'upload-tokens.use',
  'update upload_tokens set used = used + 1 where id = $1 and used < max_uses and expires_at > now() returning used',
)

/** Spends one use of a token; false when none is left. */
export async function useUploadToken(db: Db, id: string): Promise<boolean> {
  return (await use(db, [id])).length === 1
}

/** Gives back a use whose upload failed. */
export async function returnUploadTokenUse(db: Db, id: string): Promise<void> {
  await db('upload_tokens').where({ id }).where('used', '>', 0).decrement('used')
}

/** Deletes tokens that ended more than a day ago. */
export function sweepUploadTokens(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'upload_tokens',
    when: `old.expires_at < now() - interval '${retentionTimes.endedDays} day'`,
  })
}
