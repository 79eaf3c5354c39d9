import { randomBytes } from 'node:crypto'
import { credentialHash } from '../../policy/accounts/credentials.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import { batched } from '../batched.ts'
import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'

/** Identifies a sealed value of a webhook; it is bound to the application, which has at most one webhook. */
export const webhookBinding = (appId: string, what: 'address' | 'token' | 'secret'): string =>
  `git_webhooks/${appId}/${what}`

export interface WebhookSettings {
  appId: string
  /** The address of a new webhook. */
  address: string
  /** Access token of any git provider. */
  token: string
  /** The secret that deliveries are signed with; null = signatures are not checked; left out = unchanged. */
  secret?: string | null | undefined
  whenLocked?: WhenLocked
}

/** Joins a transaction that has locked the application: the caller's right may have ended in the seconds before. */
export type WhenLocked = (trx: Db) => Promise<unknown>

/**
 * Creates an application's webhook and resolves to its address, 64 hex. For an existing one it replaces the token, and the secret where
 * one is given; the address stays, and so does the server that the token may be sent to. Throws APP_NOT_FOUND.
 */
export async function setWebhook(
  db: Db,
  keys: SealKeys,
  { appId, address, token, secret, whenLocked }: WebhookSettings,
): Promise<string> {
  const sealed = await transaction(db, async trx => {
    if (!(await afterPushes(trx, appId))) throw new CodedError('APP_NOT_FOUND')
    await whenLocked?.(trx)
    const [row] = await trx('git_webhooks')
      .insert({
        id: newId(),
        app_id: appId,
        address_hash: credentialHash(address),
        address_sealed: seal(keys, address, webhookBinding(appId, 'address')),
        token_sealed: seal(keys, token, webhookBinding(appId, 'token')),
        secret_sealed: secret == null ? null : seal(keys, secret, webhookBinding(appId, 'secret')),
      })
      .onConflict('app_id')
      .merge({
        token_sealed: trx.raw('excluded.token_sealed'),
        ...(secret === undefined ? {} : { secret_sealed: trx.raw('excluded.secret_sealed') }),
        updated_at: trx.fn.now(),
      })
      .returning('address_sealed')
    await announceSources(trx, appId)
    return row.address_sealed
  })
  return unseal(keys, sealed, webhookBinding(appId, 'address'))
}

/**
 * Waits for pushes that are being stored, which hold the application's row; later ones see what follows in this transaction. Resolves to
 * whether the application is still there.
 */
export async function afterPushes(trx: Db, appId: string): Promise<boolean> {
  return Boolean(await trx('apps').where({ id: appId }).forNoKeyUpdate().first('id'))
}

/** Sets a new address, and a new random secret where there was one. False when the application has no webhook. */
export async function renewWebhook(trx: Db, keys: SealKeys, appId: string, address: string): Promise<boolean> {
  const row = await trx('git_webhooks').where({ app_id: appId }).forUpdate().first('secret_sealed')
  if (!row) return false
  const secret = randomBytes(32).toString('hex')
  await trx('git_webhooks')
    .where({ app_id: appId })
    .update({
      address_hash: credentialHash(address),
      address_sealed: seal(keys, address, webhookBinding(appId, 'address')),
      secret_sealed: row.secret_sealed && seal(keys, secret, webhookBinding(appId, 'secret')),
      updated_at: trx.fn.now(),
    })
  return true
}

/** Deletes webhook, token and secret; succeeds without one. */
export async function removeWebhook(db: Db, appId: string): Promise<void> {
  await transaction(db, async trx => {
    await afterPushes(trx, appId)
    await trx('git_webhooks').where({ app_id: appId }).delete()
    await announceSources(trx, appId)
  })
}

/** Notifies every process that an application's webhook or link has changed. */
export async function announceSources(db: Db, appId: string): Promise<void> {
  await db.raw(`select pg_notify('deploy-sources', ?)`, [appId])
}

/** The address of an application's webhook, or null. */
export async function readWebhookAddress(db: Db, keys: SealKeys, appId: string): Promise<string | null> {
  const row = await db('git_webhooks').where({ app_id: appId }).first('address_sealed')
  return row ? unseal(keys, row.address_sealed, webhookBinding(appId, 'address')) : null
}

/**
 * The access token for fetching from a repository, or null: it is sent only to the origin (scheme, name, port) of the webhook's first
 * accepted push, not to addresses that later deliveries name.
 */
export async function readAccessToken(db: Db, keys: SealKeys, appId: string, cloneUrl: string): Promise<string | null> {
  const row = await db('git_webhooks')
    .where({ app_id: appId, token_host: new URL(cloneUrl).origin })
    .first('token_sealed')
  return row ? unseal(keys, row.token_sealed, webhookBinding(appId, 'token')) : null
}

export interface FoundWebhook {
  id: string
  addressHash: Buffer
  appId: string
  ownerId: string
  secret: string | null
  sealedSecret: Buffer | null
  /** Whether a signature with this secret is also valid for the row's current secret, given sealed. */
  isSignedFor(sealed: Buffer): boolean
}

interface WebhookRow {
  address_hash: Buffer
  id: string
  app_id: string
  owner_id: string
  secret_sealed: Buffer | null
}

const byAddresses = statement<WebhookRow>(
  'webhooks.by-addresses',
  `select w.address_hash, w.id, w.app_id, a.owner_id, w.secret_sealed
     from git_webhooks w join apps a on a.id = w.app_id join users u on u.id = a.owner_id
    where w.address_hash = any($1::bytea[]) and a.desired_state <> 'deleted' and u.blocked_at is null`,
)

const byAddress = batched<Buffer, WebhookRow | undefined>(
  async (db, _, hashes) => {
    const rows = new Map((await byAddresses(db, [hashes])).map(row => [row.address_hash.toString('hex'), row]))
    return hashes.map(hash => rows.get(hash.toString('hex')))
  },
  { maxConcurrent: 2, isRead: true },
)

/** The live webhook of an address; undefined for unknown and deleted ones, deleted applications and blocked accounts. */
export async function findWebhook(db: Db, keys: SealKeys, address: string): Promise<FoundWebhook | undefined> {
  const addressHash = credentialHash(address)
  const row = await byAddress(db, 'all', addressHash)
  if (!row) return undefined
  const { secret_sealed: sealedSecret } = row
  const secretIn = (sealed: Buffer) => unseal(keys, sealed, webhookBinding(row.app_id, 'secret'))
  const secret = sealedSecret && secretIn(sealedSecret)
  const isSignedFor = (now: Buffer) => secret !== null && secretIn(now) === secret
  return { id: row.id, addressHash, appId: row.app_id, ownerId: row.owner_id, secret, sealedSecret, isSignedFor }
}
