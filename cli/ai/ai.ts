import type { Command } from 'commander'
import { listKeys } from '../../db/accounts/accounts.ts'
import { type CallInFlight, listCalls, listUsage } from '../../db/ai/ai-usage.ts'
import { usageDays } from '../../policy/ai/chat-limits.ts'
import { withInstallation } from '../installation/database.ts'
import { loadInstallation } from '../installation/installation.ts'
import { age, since } from '../ops/ops-words.ts'
import { accepted, systemContainer } from '../secrets/outside-verdicts.ts'
import { limitFrom } from '../terminal/options.ts'
import { columns } from '../terminal/terminal.ts'
import { userId } from '../users.ts'
import { addressTable, checkAddresses } from './model-check.ts'
import { usageTable, usageView } from './usage-table.ts'

const help = `
Examples:
  berth ai check                                    does every language model accept our requests, and how soon does it answer
  berth ai calls                                    what is being answered now
  berth ai usage                                    tokens of the last 7 days, by day and account
  berth ai usage --user ana@example.com --days 30   by day and key of one account
Limit a key: berth keys create --user <user> --scopes ai:chat --ai-tokens-per-day 100000`

/** `berth ai`. */
export function aiCommand(program: Command): void {
  const ai = program.command('ai').addHelpText('after', help)
  ai.command('usage')
    .description('tokens, requests and refusals by day (UTC) and account')
    .option('--user <user>', 'only those of an account, by key: id or e-mail address')
    .option('--days <n>', `number of days, today included, up to ${usageDays}`, '7')
    .option('--json', 'as a JSON array, by day, account and key')
    .action(usage)
  ai.command('calls')
    .description('calls that are being answered, oldest first')
    .option('--limit <n>', 'maximum number of entries', '100')
    .option('--json', 'as a JSON array')
    .action(calls)
  ai.command('check')
    .description('request an answer of one token from each language model; exit code 1 unless all accept')
    .option('--json', 'as a JSON array')
    .action(check)
}

async function usage({ user, days, json }: { user?: string; days: string; json?: boolean }): Promise<void> {
  const number = daysFrom(days)
  await withInstallation(async (_, db) => {
    const ownerId = user === undefined ? undefined : await userId(db, user)
    const rows = await listUsage(db, { days: number, ...(ownerId && { userId: ownerId }) })
    if (json) return console.log(JSON.stringify(rows.map(usageView)))
    const keys = ownerId === undefined ? null : await listKeys(db, ownerId)
    const words = `No account used the AI gateway in the last ${number} days.`
    console.log(rows.length === 0 ? words : usageTable(rows, keys))
  })
}

async function calls({ limit, json }: { limit: string; json?: boolean }): Promise<void> {
  const max = limitFrom(limit)
  const rows = await withInstallation((_, db) => listCalls(db, max))
  console.log(json ? JSON.stringify(rows.map(callView)) : callTable(rows, new Date()))
}

async function check({ json }: { json?: boolean }): Promise<void> {
  const installation = loadInstallation(process.env)
  const { ai } = installation.config
  const container = ai.upstreams.length === 0 ? systemContainer('ai', installation) : null
  if (container) throw new Error(`The settings of the AI gateway are unknown here: ${container}.`)
  const addresses = await checkAddresses(ai)
  if (json) console.log(JSON.stringify(addresses))
  else if (addresses.length > 0) console.log(addressTable(addresses))
  if (ai.upstreams.length === 0) throw new Error(noModel)
  if (!addresses.every(accepted)) throw new Error('Not every address accepts the requests of the AI gateway.')
}

const noModel = `No language model is configured: every call is refused with server_overloaded.
Set AI_UPSTREAM_URL, and AI_UPSTREAM_KEY and AI_UPSTREAM_MODEL if the server needs them, then restart: docs/installation.md, "AI gateway".
To try the gateway out with a toy model: berth up --ai`

/** `berth ai calls` for people. */
export function callTable(rows: readonly CallInFlight[], now: Date): string {
  if (rows.length === 0) return 'No calls are in flight.'
  const lines = rows.map(row => [
    row.email ?? `${row.user_id} (deleted)`,
    row.key_id ?? 'session',
    String(row.tokens),
    since(row.started_at, now),
    `in ${age(now, row.ends_at)} at the latest`,
  ])
  return columns([['ACCOUNT', 'KEY', 'RESERVED', 'SINCE', 'SLOT ENDS'], ...lines], '')
}

/** What scripts read of a call: exactly these keys, which docs/json-output.md lists. */
const callView = ({ id, user_id, email, key_id, tokens, started_at, ends_at }: CallInFlight) => ({
  id,
  user_id,
  email,
  key_id,
  tokens,
  started_at,
  ends_at,
})

/** Throws an Error unless the text is a number of days of which usage is retained. */
function daysFrom(text: string): number {
  if (/^[1-9]\d{0,2}$/.test(text) && Number(text) <= usageDays) return Number(text)
  throw new Error(`--days must be a whole number from 1 to ${usageDays}.`)
}
