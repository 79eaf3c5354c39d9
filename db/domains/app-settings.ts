import { isDeepStrictEqual } from 'node:util'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import {
  type AppSettings,
  type AppSettingsChanges,
  appSettingsBounds,
  changedSettings,
  defaultAppSettings,
  pageBytes,
} from '../../policy/network/app-settings.ts'
import type { AppRow } from '../apps/app-rows.ts'
import { type Db, transaction } from '../database.ts'
import { transactionNumber, wakeEdges } from './edges.ts'

/** What an application has set; the defaults where it has nothing. */
export async function readAppSettings(db: Db, appId: string): Promise<AppSettings> {
  return (await findAppSettings(db, appId))?.settings ?? defaultAppSettings
}

/**
 * Changes the settings that are given, and resolves to all of them and to the number of the transaction, with which others find out
 * whether the proxies have them; `changed` = there was a difference. Throws APP_NOT_FOUND, and INVALID_PARAMETERS when the pages of the
 * account would be too large.
 */
export async function changeAppSettings(
  db: Db,
  app: Pick<AppRow, 'id' | 'owner_id'>,
  changes: AppSettingsChanges,
): Promise<{ settings: AppSettings; transaction: string; changed: boolean }> {
  return transaction(db, async trx => {
    // Serializes the account's changes, so that each counts the pages of the others.
    await trx('users').where({ id: app.owner_id }).forUpdate().first('id')
    if (!(await trx('apps').where({ id: app.id }).forShare().first('id'))) throw new CodedError('APP_NOT_FOUND')
    const before = await readAppSettings(trx, app.id)
    const settings = changedSettings(before, changes)
    await demandRoom(trx, app, settings)
    const changed = !isDeepStrictEqual(settings, before)
    if (isDeepStrictEqual(settings, defaultAppSettings)) await trx('app_settings').where({ app_id: app.id }).delete()
    else if (changed) await store(trx, app.id, settings)
    await wakeEdges(trx)
    return { settings, transaction: await transactionNumber(trx), changed }
  })
}

async function store(trx: Db, appId: string, settings: AppSettings): Promise<void> {
  const row = { version: newId(), settings: JSON.stringify(settings), page_bytes: pageBytes(settings) }
  await trx('app_settings')
    .insert({ app_id: appId, ...row })
    .onConflict('app_id')
    .merge({ ...row, changed_at: trx.fn.now() })
}

async function demandRoom(trx: Db, app: Pick<AppRow, 'id' | 'owner_id'>, settings: AppSettings): Promise<void> {
  const { rows } = await trx.raw(
    `select coalesce(sum(s.page_bytes), 0)::int as bytes from app_settings s join apps a on a.id = s.app_id
      where a.owner_id = :ownerId and a.id <> :id`,
    { ownerId: app.owner_id, id: app.id },
  )
  const { accountPageBytes: max } = appSettingsBounds
  if (rows[0].bytes + pageBytes(settings) > max)
    throw new CodedError(
      'INVALID_PARAMETERS',
      `The pages of all applications of an account may have ${max} bytes together.`,
    )
}

/** Settings as proxies get them: of a web application, whether or not it runs. */
export interface ServedAppSettings {
  id: string
  subdomain: string
  version: string
}

/** Which settings there are: all, or those of some subdomains. */
export async function listAppSettings(db: Db, subdomains?: readonly string[]): Promise<ServedAppSettings[]> {
  const { rows } = await db.raw(
    `select a.id, a.subdomain, s.version from app_settings s join apps a on a.id = s.app_id
      where a.subdomain is not null and (:subdomains::text[] is null or a.subdomain = any(:subdomains::text[]))`,
    { subdomains: subdomains ?? null },
  )
  return rows
}

/** An application's settings and their version; undefined where everything is at its default. */
export async function findAppSettings(
  db: Db,
  appId: string,
): Promise<{ version: string; settings: AppSettings } | undefined> {
  const row = await db('app_settings').where({ app_id: appId }).first('version', 'settings')
  return row && { version: row.version, settings: { ...defaultAppSettings, ...row.settings } }
}
