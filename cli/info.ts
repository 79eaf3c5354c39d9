import type { Command } from 'commander'
import { createSession } from '../db/accounts/accounts.ts'
import { type Db, transaction } from '../db/database.ts'
import { aiAddress } from '../policy/ai/ai-settings.ts'
import { withInstallation } from './installation/database.ts'
import { firstKey } from './installation/first-account.ts'
import type { Installation } from './installation/installation.ts'
import { recordAct } from './ops/operator.ts'
import { columns } from './terminal/terminal.ts'

export const sessionSeconds = 86_400

/** Everything a script needs to use this platform. Scripts rely on exactly these keys, and on each value being usable as it is. */
export async function platformInfo(installation: Installation, db: Db) {
  const { config, secrets, dataDir } = installation
  const { userId } = secrets
  const session = userId ? await mintSession(db, config.masterKey, userId) : null
  return {
    base_url: config.urls.base,
    blob_url: config.urls.blob,
    s3_url: config.urls.s3,
    files_url: config.urls.files,
    public_url: config.urls.public,
    edge_url: config.urls.edge,
    ai_url: aiAddress(config),
    apps_domain: config.appsDomain,
    database_types: config.databases.engines.join(',') || null,
    api_key: await firstKey(installation, db),
    session_token: session?.token ?? null,
    user_id: secrets.userId ?? null,
    temporal_address: config.temporalAddress,
    temporal_ui_url: config.temporalUiUrl,
    database_url: config.databaseUrl,
    data_dir: dataDir,
  }
}

/** A session has all rights of the first account, so the audit record names who created it. */
function mintSession(db: Db, masterKey: string, userId: string) {
  return transaction(db, async trx => {
    const session = await createSession(trx, masterKey, { userId, lifeSeconds: sessionSeconds })
    await recordAct(trx, { action: 'info.session', accountId: userId, resource: session.id })
    return session
  })
}

type Info = Awaited<ReturnType<typeof platformInfo>>

/** The text for people, a line for each value. Terminals are watched and recorded, so the password of the database is shown on request only. */
export function infoText(info: Info, { showSecrets = false } = {}): string {
  const shown = showSecrets ? info : { ...info, database_url: withoutPassword(info.database_url) }
  return columns(
    Object.entries(shown).map(([key, value]) => [key, value ?? '-']),
    '',
  )
}

function withoutPassword(address: string): string {
  if (!URL.canParse(address)) return hidden
  const url = new URL(address)
  if (url.password) url.password = hidden
  if (url.searchParams.has('password')) url.searchParams.set('password', hidden)
  return url.href
}

const hidden = '***'

export function infoCommand(program: Command): void {
  program
    .command('info')
    .option('--json', 'as one JSON object, for scripts; includes the password of the database')
    .option('--show-secrets', 'also show the password of the database')
    .action(async ({ json, showSecrets }: { json?: boolean; showSecrets?: boolean }) => {
      const info = await withInstallation(platformInfo)
      console.log(json ? JSON.stringify(info, null, 2) : infoText(info, { showSecrets }))
    })
}
