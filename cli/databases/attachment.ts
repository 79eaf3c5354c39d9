import { addressOf, resolvesNames } from '../../api/v2/databases/database-address.ts'
import { changeVariables } from '../../db/apps/app-variables.ts'
import { type AppRow, loadApp } from '../../db/apps/apps.ts'
import { type Db, transaction } from '../../db/database.ts'
import { databasePasswordKey } from '../../db/databases/authorities.ts'
import { findNewPassword } from '../../db/databases/database-operator.ts'
import { type DatabaseRow, loadDatabase, lockDatabase } from '../../db/databases/databases.ts'
import { findHost } from '../../db/hosts/hosts.ts'
import { merged, variablesFrom } from '../../policy/apps/variables.ts'
import {
  connectionUrl,
  type DatabaseAddress,
  databaseDomain,
  databaseHostname,
} from '../../policy/databases/connection-url.ts'
import { databasePassword } from '../../policy/databases/passwords.ts'
import { CodedError } from '../../policy/errors.ts'
import type { Installation } from '../installation/installation.ts'
import { recordAct } from '../ops/operator.ts'

interface Attachment {
  databaseId: string
  appId: string
  /** Name of the variable, with or without `_URL`; omitted = from the name of the database. */
  name?: string | undefined
  /** Also replaces a variable that has something else. */
  force: boolean
}

interface Attached {
  variable: string
  app: AppRow
  database: DatabaseRow
  /** The application had this variable already. */
  replaced: boolean
  /** What else must be true for the address to lead there; null = nothing. */
  note: string | null
}

/**
 * Writes the URL of a database, with its current password, into a variable of an application of the same account, which is not
 * restarted. Nothing of the URL is returned. Throws an Error that says why not.
 */
export async function attachDatabase(
  { config }: Pick<Installation, 'config'>,
  db: Db,
  { databaseId, appId, name, force }: Attachment,
): Promise<Attached> {
  const key = await databasePasswordKey(db, config.sealKeys)
  // Before the transaction, which locks rows: this may wait for a name server.
  const seen = await loadDatabase(db, databaseId)
  const outside = seen && (await addressOf(seen, { db, config, resolvesName: resolvesNames() }))
  return transaction(db, async trx => {
    // Locked: a rotation replaces the password either before, and is seen, or after.
    const database = await lockDatabase(trx, databaseId)
    const app = await loadApp(trx, appId)
    if (!database || !outside) throw new Error(`The database ${databaseId} was deleted a moment ago.`)
    if (!app) throw new Error(`The application ${appId} was deleted a moment ago.`)
    await assertPossible(trx, database, app)
    const variable = name === undefined ? variableOf(database.name) : variableNamed(name)
    const isTogether = app.host_id === database.host_id
    const domain = databaseDomain(await findHost(trx, database.host_id), config.databases.domain)
    // On one host the name leads there within the owner's network, whatever the machine resolves.
    const inNetwork = { host: databaseHostname(database.id, domain), port: database.port }
    const address = isTogether ? inNetwork : { ...outside, port: database.port }
    const password = databasePassword(key, database.id, database.password_generation)
    const given = variablesFrom({ [variable]: connectionUrl(database.engine, address, password) })
    let before: string | undefined
    await changeVariables(trx, config.sealKeys, app.id, {
      touches: other => other === variable,
      apply: variables => {
        before = variables.get(variable)
        if (before !== undefined && !force && !leadsTo(before, database, address)) throw taken(variable)
        return merged(variables, given)
      },
    })
    await recordAct(trx, { action: 'databases.attach', accountId: app.owner_id, resource: app.id })
    const note = isTogether ? null : apart(app, database, address)
    return { variable, app, database, replaced: before !== undefined, note }
  })
}

async function assertPossible(db: Db, database: DatabaseRow, app: AppRow): Promise<void> {
  if (database.owner_id !== app.owner_id)
    throw new Error('The database and the application belong to different accounts: only one account can use both.')
  if (app.language === 'static') throw new CodedError('STATIC_APP_ENV_NOT_SUPPORTED')
  if (database.lost_with) throw new Error(`The database was lost with host ${database.lost_with}.`)
  if (database.desired_state === 'deleted') throw new Error('The database is being deleted.')
  const pending = await findNewPassword(db, database.id)
  if (pending)
    throw new Error(
      `The password of the database is being set: operation ${pending.id.slice(0, 8)} (${pending.kind}). Try again when it has finished.`,
    )
}

/** `My redis` becomes MY_REDIS_URL; the name of a variable does not begin with a digit. */
function variableOf(databaseName: string): string {
  const name = databaseName.toUpperCase().replace(/[^A-Z0-9]/g, '_')
  return `${/^\d/.test(name) ? '_' : ''}${name}_URL`
}

/** The variable that an operator named; `_URL` is added unless it is there. */
function variableNamed(name: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
    throw new Error('--name must consist of letters, digits and underscores, and not begin with a digit.')
  return name.endsWith('_URL') ? name : `${name}_URL`
}

/** Whether a value is a URL of a database: with its name in any domain, which its host may have had before, or with this address. */
function leadsTo(value: string, { id, port }: DatabaseRow, { host }: DatabaseAddress): boolean {
  if (!URL.canParse(value)) return false
  const { hostname, port: given } = new URL(value)
  return given === String(port) && (hostname === host || hostname.startsWith(databaseHostname(id, '')))
}

const taken = (variable: string): Error =>
  new Error(
    `The application already has a variable ${variable} with another value. Choose another name with --name, or replace it with --force.`,
  )

const apart = (app: AppRow, database: DatabaseRow, { host, port }: DatabaseAddress): string =>
  `They are on different hosts (${app.host_id} and ${database.host_id}): ${host} must resolve to host ${database.host_id}, and its DATABASE_BIND must be an address that applications reach at port ${port}.`
