import { randomBytes } from 'node:crypto'
import { credentialHash } from '../../policy/accounts/credentials.ts'
import { newId } from '../../policy/ids.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'

/** Which secret of a webhook a sealed text is; bound to the application, which has at most one webhook. */
export const webhookRow = (appId: string, what: 'address' | 'token' | 'secret'): string =>
  `git_webhooks/${appId}/${what}`

export interface WebhookSettings {
  appId: string
  /** For one that has none yet. */
  address: string
  /** Access token of any git provider. */
  token: string
  /** What deliveries are signed with; null = signatures are not looked at; left out = as before. */
  secret?: string | null | undefined
}

/**
 * Gives an application its webhook and resolves to the address, 64 hex. Set again it replaces the token, and the secret where one is
 * given; it keeps the address, and also the server that the token may go to.
 */
export async function setWebhook(
  db: Db,
  keys: SealKeys,
  { appId, address, token, secret }: WebhookSettings,
): Promise<string> {
  const sealed = await transaction(db, async trx => {
    await afterPushes(trx, appId)
    const [row] = await trx('git_webhooks')
      .insert({
        id: newId(),
        app_id: appId,
        address_hash: credentialHash(address),
        address_sealed: seal(keys, address, webhookRow(appId, 'address')),
        token_sealed: seal(keys, token, webhookRow(appId, 'token')),
        secret_sealed: secret == null ? null : seal(keys, secret, webhookRow(appId, 'secret')),
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
  return unseal(keys, sealed, webhookRow(appId, 'address'))
}

/** Pushes that are being stored, which hold the application's row, come before what follows; those after it see it. */
async function afterPushes(trx: Db, appId: string): Promise<void> {
  await trx('apps').where({ id: appId }).forNoKeyUpdate().first('id')
}

/** A new address, and a new secret where there was one: nobody knows them yet. False when the application has no webhook. */
export async function renewWebhook(trx: Db, keys: SealKeys, appId: string, address: string): Promise<boolean> {
  const row = await trx('git_webhooks').where({ app_id: appId }).forUpdate().first('secret_sealed')
  if (!row) return false
  const secret = randomBytes(32).toString('hex')
  await trx('git_webhooks')
    .where({ app_id: appId })
    .update({
      address_hash: credentialHash(address),
      address_sealed: seal(keys, address, webhookRow(appId, 'address')),
      secret_sealed: row.secret_sealed && seal(keys, secret, webhookRow(appId, 'secret')),
      updated_at: trx.fn.now(),
    })
  return true
}

/** Removes webhook, token and secret; none is success. */
export async function removeWebhook(db: Db, appId: string): Promise<void> {
  await transaction(db, async trx => {
    await afterPushes(trx, appId)
    await trx('git_webhooks').where({ app_id: appId }).delete()
    await announceSources(trx, appId)
  })
}

/** Tells every process that what an application is deployed from has changed: its webhook, or its link. */
export async function announceSources(db: Db, appId: string): Promise<void> {
  await db.raw(`select pg_notify('deploy-sources', ?)`, [appId])
}

/** The address of an application's webhook, or null. */
export async function webhookAddress(db: Db, keys: SealKeys, appId: string): Promise<string | null> {
  const row = await db('git_webhooks').where({ app_id: appId }).first('address_sealed')
  return row ? unseal(keys, row.address_sealed, webhookRow(appId, 'address')) : null
}

/**
 * The access token for fetching from a repository, or null: it goes only to the origin (scheme, name, port) of the webhook's
 * first accepted push, whatever address a later delivery names.
 */
export async function tokenFor(db: Db, keys: SealKeys, appId: string, cloneUrl: string): Promise<string | null> {
  const row = await db('git_webhooks')
    .where({ app_id: appId, token_host: new URL(cloneUrl).origin })
    .first('token_sealed')
  return row ? unseal(keys, row.token_sealed, webhookRow(appId, 'token')) : null
}

export interface FoundWebhook {
  id: string
  addressHash: Buffer
  appId: string
  ownerId: string
  secret: string | null
  /** Whether what was signed with this secret would be let in by the one that the row has now, sealed; null = everything is. */
  isSignedFor(sealed: Buffer | null): boolean
}

interface WebhookRow {
  id: string
  app_id: string
  owner_id: string
  secret_sealed: Buffer | null
}

const byAddress = statement<WebhookRow>(
  'webhooks.by-address',
  `select w.id, w.app_id, a.owner_id, w.secret_sealed
     from git_webhooks w join apps a on a.id = w.app_id join users u on u.id = a.owner_id
    where w.address_hash = $1 and a.desired_state <> 'deleted' and u.blocked_at is null`,
)

/** The live webhook of an address; undefined for unknown and removed ones, deleted applications and blocked accounts. */
export async function findWebhook(db: Db, keys: SealKeys, address: string): Promise<FoundWebhook | undefined> {
  const addressHash = credentialHash(address)
  const [row] = await byAddress(db, [addressHash])
  if (!row) return undefined
  const { secret_sealed: before } = row
  const secretIn = (sealed: Buffer | null) => sealed && unseal(keys, sealed, webhookRow(row.app_id, 'secret'))
  const secret = secretIn(before)
  // The same secret may have been sealed with another key meanwhile.
  const isSignedFor = (now: Buffer | null) =>
    now === null || (before !== null && (now.equals(before) || secretIn(now) === secret))
  return { id: row.id, addressHash, appId: row.app_id, ownerId: row.owner_id, secret, isSignedFor }
}
