import type { Command } from 'commander'
import { z } from 'zod'
import { changeSetting } from '../db/accounts/account-settings.ts'
import {
  createKey,
  createSession,
  createUser,
  findUser,
  findUserByEmail,
  listUsers,
  setBlocked,
  setPlan,
  type UserRow,
} from '../db/accounts/accounts.ts'
import { type Db, sqlState, transaction } from '../db/database.ts'
import { blockDeployer } from '../db/git/deploy-rights.ts'
import { isLocale } from '../policy/accounts/locales.ts'
import { username } from '../policy/accounts/usernames.ts'
import { mailLocales } from '../policy/mail/template.ts'
import { plansOf } from '../workers/adapters/plans.ts'
import { sessionSeconds } from './info.ts'
import { withInstallation } from './installation/database.ts'
import type { Installation } from './installation/installation.ts'
import { operatorName, recordAct } from './ops/operator.ts'
import { limitFrom } from './terminal/options.ts'
import { columns } from './terminal/terminal.ts'

interface CreateOptions {
  email: string
  name: string
  plan: string
  locale?: string
  json?: boolean
}

const localeList = mailLocales.join(', ')

export function usersCommand(program: Command): void {
  const users = program.command('users')
  users
    .command('create')
    .description('create an account with a full-access key and a session')
    .requiredOption('--email <address>')
    .requiredOption('--name <name>')
    .requiredOption('--plan <plan>', 'one of those that berth plans lists')
    .option('--locale <locale>', `${localeList}; default: that of the first sign-in`)
    .option('--json', 'as one JSON object')
    .action(async ({ json, ...input }: CreateOptions) => {
      const created = await withInstallation((installation, db) => createAccount(installation, db, input))
      console.log(json ? JSON.stringify(created) : columns(Object.entries(created), ''))
    })
  users
    .command('list')
    .description('accounts, newest first')
    .option('--limit <n>', 'maximum number of entries', '100')
    .option('--json', 'as a JSON array')
    .action(async ({ limit, json }: { limit: string; json?: boolean }) => {
      const max = limitFrom(limit)
      const rows = await withInstallation((_, db) => listUsers(db, max))
      console.log(json ? JSON.stringify(rows.map(accountView)) : table(rows))
    })
  users
    .command('set-plan')
    .description('change the plan of an account')
    .argument('<user>', 'id or e-mail address')
    .requiredOption('--plan <plan>')
    .option('--until <date>', 'date or time when it ends, for example 2030-01-31; default: never')
    .action(async (who: string, { plan, until }: { plan: string; until?: string }) => {
      const end = until === undefined ? null : new Date(until)
      if (end && Number.isNaN(end.getTime()))
        throw new Error(`--until must be a date such as 2030-01-31, not "${until}".`)
      await withInstallation(async (installation, db) => {
        assertPlan(installation, plan)
        await actOn(db, who, 'users.set-plan', (trx, id) => setPlan(trx, id, plan, end))
      })
      console.log(`${who} now has the plan ${plan}${end ? ` until ${end.toISOString()}` : ''}.`)
    })
  users
    .command('set-locale')
    .description('change the language of an account and its mail')
    .argument('<user>', 'id or e-mail address')
    .argument('<locale>', localeList)
    .action(async (who: string, locale: string) => {
      const chosen = localeOf(locale)
      await withInstallation((_, db) =>
        actOn(db, who, 'users.set-locale', (trx, id) => changeSetting(trx, id, 'locale', chosen)),
      )
      console.log(`${who} now has the language ${chosen}.`)
    })
  for (const [verb, blocked, words] of [
    ['block', true, 'refuse every credential of an account'],
    ['unblock', false, 'accept the credentials of a blocked account again'],
  ] as const) {
    users
      .command(verb)
      .description(words)
      .argument('<user>', 'id or e-mail address')
      .action(async (who: string) => {
        await withInstallation(({ config }, db) =>
          actOn(db, who, `users.${verb}`, (trx, id) =>
            blocked ? blockDeployer(trx, config, operatorName(), id) : setBlocked(trx, id, false),
          ),
        )
        console.log(`${who} is ${blocked ? 'now blocked' : 'no longer blocked'}.`)
      })
  }
}

/** Throws an Error for a language without mail texts. */
function localeOf(text: string): string {
  if (!isLocale(text)) throw new Error(`There is no language "${text}". Languages: ${localeList}`)
  return text
}

async function createAccount(
  installation: Installation,
  db: Db,
  { email, name, plan, locale }: Omit<CreateOptions, 'json'>,
) {
  const { masterKey } = installation.config
  assertPlan(installation, plan)
  if (!z.email().max(254).safeParse(email).success)
    throw new Error(`--email must be an address that can receive mail, not "${email}".`)
  const called = username(name)
  if (called === null) throw new Error('--name must be 1 to 24 letters and digits, with single spaces between words.')
  const chosen = locale === undefined ? undefined : localeOf(locale)
  return transaction(db, async trx => {
    const user = await createUser(trx, { email, name: called, plan, locale: chosen }).catch(error => {
      throw sqlState(error) === '23505' ? new Error(`There is already an account with the address ${email}.`) : error
    })
    const { key, id } = await createKey(trx, masterKey, { userId: user.id })
    const { token } = await createSession(trx, masterKey, { userId: user.id, lifeSeconds: sessionSeconds })
    await recordAct(trx, { action: 'users.create', accountId: user.id })
    return { user_id: user.id, key_id: id, api_key: key, session_token: token }
  })
}

/** Changes the account that an operator named, and records that, in one transaction. */
async function actOn(
  db: Db,
  who: string,
  action: string,
  work: (trx: Db, accountId: string) => Promise<unknown>,
): Promise<void> {
  await transaction(db, async trx => {
    const accountId = await userId(trx, who)
    await work(trx, accountId)
    await recordAct(trx, { action, accountId })
  })
}

function assertPlan({ config }: Installation, plan: string): void {
  const plans = plansOf(config)
  if (!plans.has(plan)) throw new Error(`There is no plan "${plan}". Plans: ${[...plans.keys()].join(', ')}`)
}

/** The id of an account named by id or address. Throws an Error when there is none. */
export async function userId(db: Db, who: string): Promise<string> {
  const user = who.includes('@') ? await findUserByEmail(db, who) : await findUser(db, who)
  if (!user) throw new Error(`There is no account "${who}".`)
  return user.id
}

/** What scripts read of an account: exactly these keys, which docs/json-output.md lists. */
function accountView({ id, name, email, locale, plan, plan_ends_at, blocked_at, created_at }: UserRow) {
  return { id, name, email, locale, plan, plan_ends_at, blocked_at, created_at }
}

function table(rows: readonly UserRow[]): string {
  if (rows.length === 0) return 'There are no accounts.'
  const lines = rows.map(row => [
    row.id,
    row.email,
    row.name,
    row.plan,
    row.plan_ends_at?.toISOString().slice(0, 16) ?? 'no end',
    row.blocked_at ? 'blocked' : '',
  ])
  return columns([['ID', 'ADDRESS', 'NAME', 'PLAN', 'UNTIL', ''], ...lines], '')
}
