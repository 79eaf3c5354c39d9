import test from 'ava'
import { mailTable } from '../../cli/mail.ts'
import { type MailLine, queueMail, recordMailFailure, recordMailSent, takeMails } from '../../db/accounts/mails.ts'
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
  t.is(mailTable([], now), 'No mail waits, and none has failed.')
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

test('an operator lists mail, and retries failed mail', async t => {
  const { db, url } = await database
  const user = await rows(db).user()
  const queue = () => queueMail(db, { userId: user.id, template: 'memory-out', fields: { app: 'shop', limitMb: 256 } })
  for (let n = 0; n < 2; n++) await queue()
  const [sent, failed] = await takeMails(db, 2, mailTries)
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
  t.regex((await mail('retry', sent!.id)).stderr, /waits or has failed/)
  t.is((await mail('retry', failed!.id.slice(0, 8))).code, 0)
  t.like(await db('mails').where({ id: failed!.id }).first(), { state: 'queued', attempts: 0 })
})
