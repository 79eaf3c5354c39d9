import test from 'ava'
import { invoiceFrom, mailTable } from '../../cli/mail.ts'
import { type MailLine, queueMail, recordMailFailure, recordMailSent, takeMail } from '../../db/accounts/mails.ts'
import { mailTries } from '../../policy/mail/delivery.ts'
import { operatorCommand } from '../kit/actors/operator-command.ts'
import { ownFolder } from '../kit/folders.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

const now = new Date('2030-01-01T12:00:00Z')
const line = (changes: Partial<MailLine>): MailLine => ({
  id: 'abcdef0123456789',
  template: 'memory-high',
  state: 'queued',
  attempts: 0,
  last_error: null,
  created_at: new Date(now.getTime() - 300_000),
  next_try_at: now,
  sent_at: null,
  email: 'ana@example.org',
  ...changes,
})

test('the list shows which mail waits, how often it was tried, and why it failed', t => {
  t.is(mailTable([], now), 'No mail is waiting, and none has failed.')
  const again = new Date(now.getTime() + 240_000)
  const table = mailTable(
    [
      line({}),
      line({ attempts: 3, next_try_at: again, last_error: '421 busy' }),
      line({ state: 'failed', attempts: 1, last_error: '550 no such user' }),
      line({ state: 'sent', attempts: 1, sent_at: now }),
    ],
    now,
  )
  t.deepEqual(
    table.split('\n').map(row => row.trim()),
    [
      'ID        TO               MAIL         STATE   SINCE      WHAT',
      'abcdef01  ana@example.org  memory-high  queued  5 min ago',
      'abcdef01  ana@example.org  memory-high  queued  5 min ago  tried 3 times, again in 4 min: 421 busy',
      'abcdef01  ana@example.org  memory-high  failed  5 min ago  tried once: 550 no such user',
      'abcdef01  ana@example.org  memory-high  sent    0 s ago',
    ],
  )
})

test.serial('an operator lists mail, and retries failed mail', async t => {
  const { db, url } = await database
  const user = await rows(db).user()
  const queue = () => queueMail(db, { userId: user.id, template: 'memory-out', fields: { app: 'shop', limitMb: 256 } })
  for (let n = 0; n < 2; n++) await queue()
  const [sent, failed] = [await takeMail(db, mailTries), await takeMail(db, mailTries)]
  await recordMailSent(db, sent!.id)
  await recordMailFailure(db, failed!.id, '550 no such user', true)
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t) }
  const mail = (...args: string[]) => operatorCommand(settings, 'mail', ...args)
  const ids = async (...args: string[]) =>
    (JSON.parse((await mail('list', '--json', ...args)).stdout) as MailLine[]).map(({ id }) => id)
  t.deepEqual(await ids(), [failed!.id])
  t.deepEqual((await ids('--sent')).sort(), [sent!.id, failed!.id].sort())
  t.regex(
    (await mail('list')).stdout,
    new RegExp(`${user.email} +memory-out +failed +\\d+ s ago +tried once: 550 no such user`),
  )
  t.regex((await mail('retry', sent!.id)).stderr, /No waiting or failed mail/)
  t.is((await mail('retry', failed!.id.slice(0, 8))).code, 0)
  t.like(await db('mails').where({ id: failed!.id }).first(), { state: 'queued', attempts: 0 })
})

const typed = { number: ' R-2030/17 ', amount: '12,50 €', due: '2030-01-31', url: 'https://pay.example.org/a b?n=17' }

test('an invoice is what was typed, with an address that can be clicked', t => {
  t.deepEqual(invoiceFrom(typed), {
    ...{ number: 'R-2030/17', amount: '12,50 €', dueOn: '2030-01-31' },
    url: 'https://pay.example.org/a%20b?n=17',
  })
  t.is(invoiceFrom({ ...typed, number: '№'.repeat(64), due: '2028-02-29' }).dueOn, '2028-02-29')
})

test('an option of an invoice that cannot be mailed is refused by its name', t => {
  const hostile = ['', '  ', '\u200b', 'a\r\nBcc: x@example.org', 'a\u202eb', '7'.repeat(65)]
  const wrong: Record<string, readonly string[]> = {
    number: hostile,
    amount: hostile,
    due: ['', 'tomorrow', '31.01.2030', '2030-02-30', '2030-13-01', '2030-1-1', '2030-01-31T12:00', '+002030-01-31'],
    url: [
      ...[
        '',
        'pay.example.org/17',
        'ftp://pay.example.org',
        'javascript:alert(1)',
        'https://',
        'https://u:p@example.org',
      ],
      `https://pay.example.org/${'a'.repeat(1000)}`,
    ],
  }
  for (const [option, texts] of Object.entries(wrong))
    for (const text of texts)
      t.throws(
        () => invoiceFrom({ ...typed, [option]: text }),
        { message: new RegExp(`^--${option} must be `) },
        `${option} ${text}`,
      )
})

test.serial('an account is mailed about an invoice once, also when that is requested twice, concurrently', async t => {
  const { db, url } = await database
  const [ana, ben] = [await rows(db).user(), await rows(db).user()]
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t) }
  const send = (user: string, number: string, ...args: string[]) =>
    operatorCommand(
      settings,
      ...['mail', 'invoice', '--user', user, '--number', number, '--amount', 'EUR 12.50'],
      ...['--due', '2030-01-31', '--url', 'https://pay.example.org/17', ...args],
    )
  const both = await Promise.all([send(ana.email!, 'R-17', '--json'), send(ana.id, 'R-17', '--json')])
  const [first, second] = both.map(({ stdout }) => JSON.parse(stdout))
  t.deepEqual([first.queued, second.queued].sort(), [false, true])
  t.like(first, { mail_id: second.mail_id, state: 'queued' })
  t.like(await db('mails').where({ id: first.mail_id }).first(), {
    ...{ user_id: ana.id, template: 'invoice' },
    fields: { number: 'R-17', amount: 'EUR 12.50', dueOn: '2030-01-31', url: 'https://pay.example.org/17' },
  })
  const id = first.mail_id.slice(0, 8)
  t.regex((await send(ana.id, 'R-17')).stdout, /^Nothing was queued: .* is still waiting\. See: berth mail list\n$/)
  await recordMailFailure(db, first.mail_id, '550 no such user', true)
  t.regex((await send(ana.id, 'R-17')).stdout, new RegExp(`has failed\\. Send it again: berth mail retry ${id}\n$`))
  await recordMailSent(db, first.mail_id)
  t.regex((await send(ana.id, 'R-17')).stdout, /about invoice R-17 of \d{4}-\d\d-\d\d was sent\.\n$/)
  t.regex((await send(ana.id, 'R-18')).stdout, /^\w{8}: the mail to \w+ about invoice R-18 is queued\./)
  t.true(JSON.parse((await send(ben.id, 'R-17', '--json')).stdout).queued, 'a number is of one account')
  t.regex((await send('nobody@example.org', 'R-17')).stderr, /There is no account "nobody@example\.org"/)
  const acts = await db('audit').where({ action: 'mail.invoice' }).orderBy('id').select('account_id', 'resource')
  t.deepEqual(
    acts.map(({ account_id, resource }) => [account_id, resource]),
    [ana, ana, ben].map(({ id }, n) => [id, ['R-17', 'R-18', 'R-17'][n]]),
  )
})
