import type { Command } from 'commander'
import { findMailOf, listMails, type MailLine, queueMail, retryMails } from '../db/accounts/mails.ts'
import { type Db, transaction } from '../db/database.ts'
import { isShownName } from '../lib/shown-names.ts'
import { type Invoice, invoiceLengths } from '../policy/mail/invoice.ts'
import { withInstallation } from './installation/database.ts'
import { recordAct } from './ops/operator.ts'
import { age } from './ops/ops-words.ts'
import { limitFrom } from './terminal/options.ts'
import { columns } from './terminal/terminal.ts'
import { userId } from './users.ts'

interface ListOptions {
  sent?: boolean
  limit: string
  json?: boolean
}

interface InvoiceOptions {
  user: string
  number: string
  amount: string
  due: string
  url: string
  json?: boolean
}

export function mailCommand(program: Command): void {
  const mail = program.command('mail')
  mail
    .command('list')
    .description('mail that waits or has failed, with the reason')
    .option('--sent', 'also mail that was sent in the last month')
    .option('--limit <n>', 'maximum number of entries', '50')
    .option('--json', 'as a JSON array')
    .action(async ({ sent = false, limit, json }: ListOptions) => {
      const most = limitFrom(limit)
      const lines = await withInstallation((_, db) => listMails(db, { sent, limit: most }))
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
        throw new Error(`No waiting or failed mail has an id that starts with "${start}". See: berth mail list`)
      console.log(`${ids.map(id => id.slice(0, 8)).join(', ')}: queued again. See: berth mail list --sent`)
    })
  mail
    .command('invoice')
    .description('mail an account about an invoice of your billing system, once for each number within 30 days')
    .requiredOption('--user <user>', 'id or e-mail address')
    .requiredOption('--number <number>', 'number of the invoice')
    .requiredOption('--amount <text>', 'amount with its currency, as shown in the mail, for example "EUR 12.50"')
    .requiredOption('--due <date>', 'day until which it must be paid, for example 2030-01-31')
    .requiredOption('--url <url>', 'address of the invoice, http or https')
    .option('--json', 'as one JSON object')
    .action(async ({ user, json, ...options }: InvoiceOptions) => {
      const invoice = invoiceFrom(options)
      const mailed = await withInstallation((_, db) => transaction(db, trx => mailInvoice(trx, user, invoice)))
      console.log(json ? JSON.stringify(mailed) : invoiceWords(user, invoice.number, mailed))
    })
}

/** The invoice that an operator typed. Throws an Error that says how an invalid option must be. */
export function invoiceFrom({ number, amount, due, url }: Omit<InvoiceOptions, 'user' | 'json'>): Invoice {
  return {
    number: shown('number', number),
    amount: shown('amount', amount),
    dueOn: dayFrom(due),
    url: addressFrom(url),
  }
}

function shown(option: 'number' | 'amount', text: string): string {
  const trimmed = text.trim()
  const max = invoiceLengths[option]
  if (!isShownName(trimmed) || [...trimmed].length > max)
    throw new Error(`--${option} must be one line of 1 to ${max} visible characters in their written order.`)
  return trimmed
}

function dayFrom(text: string): string {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
  // 2030-02-30 is read as a day of March.
  if (Number.isNaN(time) || new Date(time).toISOString().slice(0, 10) !== text)
    throw new Error(`--due must be a date such as 2030-01-31, not "${text}".`)
  return text
}

/** In the form in which browsers send it, which has no spaces and no characters that mislead. */
function addressFrom(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.href.length > invoiceLengths.url)
    throw new Error(
      `--url must be an address such as https://billing.example.org/invoices/17: http or https, without a password, ${invoiceLengths.url} characters at most.`,
    )
  return url.href
}

/** What became of a request for a mail about an invoice; exactly these keys, which docs/json-output.md lists. */
interface InvoiceMail {
  mail_id: string
  /** False if the invoice had been mailed before. */
  queued: boolean
  state: MailLine['state']
  created_at: Date
}

/** Queues the mail about an invoice in the caller's transaction, unless this account has had one for this number. */
async function mailInvoice(trx: Db, who: string, invoice: Invoice): Promise<InvoiceMail> {
  const accountId = await userId(trx, who)
  const once = `invoice/${accountId}/${invoice.number}`
  const queued = await queueMail(trx, { userId: accountId, template: 'invoice', fields: invoice, once })
  if (queued) await recordAct(trx, { action: 'mail.invoice', accountId, resource: invoice.number })
  const { id, state, created_at } = (await findMailOf(trx, once))!
  return { mail_id: id, queued, state, created_at }
}

function invoiceWords(who: string, number: string, { mail_id, queued, state, created_at }: InvoiceMail): string {
  const id = mail_id.slice(0, 8)
  const about = `the mail to ${who} about invoice ${number}`
  if (queued) return `${id}: ${about} is queued. See: berth mail list --sent`
  const before = `Nothing was queued: ${about} of ${created_at.toISOString().slice(0, 10)}`
  if (state === 'sent') return `${before} was sent.`
  return state === 'queued'
    ? `${before} is still waiting. See: berth mail list`
    : `${before} has failed. Send it again: berth mail retry ${id}`
}

/** `berth mail list` for people. */
export function mailTable(lines: readonly MailLine[], now: Date): string {
  if (lines.length === 0) return 'No mail is waiting, and none has failed.'
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
