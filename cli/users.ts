import type { Command } from 'commander'
import { createKey, createSession, createUser, findUser, findUserByEmail, setBlocked, setPlan } from '../db/accounts.ts'
import { type Db, sqlState } from '../db/database.ts'
import { plansOf } from '../workers/plans.ts'
import { withInstallation } from './database.ts'
import { sessionSeconds } from './info.ts'
import type { Installation } from './installation.ts'
import { columns } from './terminal.ts'

interface CreateOptions {
  email: string
  name: string
  plan: string
  json?: boolean
}

export function usersCommand(program: Command): void {
  const users = program.command('users').description('accounts')
  users
    .command('create')
    .description('make an account with a full-access key and a session')
    .requiredOption('--email <address>')
    .requiredOption('--name <name>')
    .requiredOption('--plan <plan>', 'free, hobby-1, standard-4, pro-12, enterprise-32, ...')
    .option('--json', 'as one JSON object')
    .action(async ({ json, ...input }: CreateOptions) => {
      const made = await withInstallation((installation, db) => createAccount(installation, db, input))
      console.log(json ? JSON.stringify(made) : columns(Object.entries(made), ''))
    })
  users
    .command('set-plan')
    .description('change the plan of an account')
    .argument('<user>', 'id or e-mail address')
    .requiredOption('--plan <plan>')
    .option('--until <date>', 'the day or moment it ends, for example 2030-01-31; never when left out')
    .action(async (who: string, { plan, until }: { plan: string; until?: string }) => {
      const end = until === undefined ? null : new Date(until)
      if (end && Number.isNaN(end.getTime())) throw new Error(`--until takes a date like 2030-01-31, not "${until}".`)
      await withInstallation(async (installation, db) => {
        mustBePlan(installation, plan)
        await setPlan(db, await userId(db, who), plan, end)
      })
      console.log(`${who} has the plan ${plan}${end ? ` until ${end.toISOString()}` : ''}.`)
    })
  for (const [verb, blocked, words] of [
    ['block', true, 'refuse every credential of an account'],
    ['unblock', false, 'let a blocked account in again'],
  ] as const) {
    users
      .command(verb)
      .description(words)
      .argument('<user>', 'id or e-mail address')
      .action(async (who: string) => {
        await withInstallation(async (_, db) => setBlocked(db, await userId(db, who), blocked))
        console.log(`${who} is ${blocked ? 'blocked' : 'not blocked any more'}.`)
      })
  }
}

async function createAccount({ config, ...installation }: Installation, db: Db, input: Omit<CreateOptions, 'json'>) {
  mustBePlan({ config, ...installation }, input.plan)
  const user = await createUser(db, input).catch(error => {
    throw sqlState(error) === '23505'
      ? new Error(`There is an account with the address ${input.email} already.`)
      : error
  })
  const { key } = await createKey(db, config.masterKey, { userId: user.id })
  const { token } = await createSession(db, config.masterKey, { userId: user.id, lifeSeconds: sessionSeconds })
  return { user_id: user.id, api_key: key, session_token: token }
}

function mustBePlan({ config }: Installation, plan: string): void {
  const plans = plansOf(config)
  if (!plans.has(plan)) throw new Error(`There is no plan "${plan}". Plans: ${[...plans.keys()].join(', ')}`)
}

/** The id of the account that a person named by id or address. Throws an Error when there is none. */
export async function userId(db: Db, who: string): Promise<string> {
  const user = who.includes('@') ? await findUserByEmail(db, who) : await findUser(db, who)
  if (!user) throw new Error(`There is no account "${who}".`)
  return user.id
}
