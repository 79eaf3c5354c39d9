import type { Command } from 'commander'
import { listMails, type MailLine, retryMails } from '../db/accounts/mails.ts'
import { transaction } from '../db/database.ts'
import { withInstallation } from './installation/database.ts'
import { recordAct } from './ops/operator.ts'
import { age } from './ops/ops-words.ts'
import { columns } from './terminal/terminal.ts'

interface ListOptions {
  sent?: boolean
  limit: string
  json?: boolean
}

export function mailCommand(program: Command): void {
  const mail = program.command('mail').description('mail to owners of applications')
  mail
    .command('list')
    .description('mail that waits or has failed, with the reason')
    .option('--sent', 'also mail that was sent in the last month')
    .option('--limit <n>', 'maximum number of entries', '50')
    .option('--json', 'as a JSON array')
    .action(async ({ sent = false, limit, json }: ListOptions) => {
      if (!/^[1-9]\d{0,5}$/.test(limit)) throw new Error('--limit must be a whole number from 1.')
      const lines = await withInstallation((_, db) => listMails(db, { sent, limit: Number(limit) }))
      console.log(json ? JSON.stringify(lines) : mailTable(lines, new Date()))
    })
  mail
    .command('retry')
    .description('immediately retry mail that waits or has failed')
    .argument('<id>', 'the id, or its first characters')
    .action(async (start: string) => {
      const ids = await withInstallation((_, db) =>
        transaction(db, async trx => {
          const retried = await retryMails(trx, start)
          for (const resource of retried) await recordAct(trx, { action: 'mail.retry', accountId: null, resource })
          return retried
        }),
      )
      if (ids.length === 0)
        throw new Error(`No mail that starts with "${start}" waits or has failed. See: berth mail list`)
      console.log(`${ids.map(id => id.slice(0, 8)).join(', ')}: queued again. See: berth mail list --sent`)
    })
}

/** `berth mail list` for people. */
export function mailTable(lines: readonly MailLine[], now: Date): string {
  if (lines.length === 0) return 'No mail waits, and none has failed.'
  const rows = lines.map(line => [
    line.id.slice(0, 8),
    line.email,
    line.template,
    line.state,
    `${age(line.sent_at ?? line.created_at, now)} ago`,
    [tried(line, now), line.last_error].filter(Boolean).join(': '),
  ])
  return columns([['ID', 'TO', 'MAIL', 'STATE', 'SINCE', 'WHAT'], ...rows], '')
}

function tried({ state, attempts, next_try_at }: MailLine, now: Date): string {
  if (state === 'sent' || attempts === 0) return ''
  const times = attempts === 1 ? 'tried once' : `tried ${attempts} times`
  return state === 'queued' ? `${times}, again in ${age(now, next_try_at)}` : times
}
