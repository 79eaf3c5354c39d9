import test from 'ava'
import { pino } from 'pino'
import { smtpMailer } from '../../../activities/mail/smtp.ts'
import { queueMail } from '../../../db/accounts/mails.ts'
import { isMailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { newId } from '../../../policy/ids.ts'
import { type MailLocale, mailLocales } from '../../../policy/mail/template.ts'
import { type QueuedFields, type TemplateName, templates } from '../../../policy/mail/templates.ts'
import { mailedCodes } from '../../../workers/loops/mailed-codes.ts'
import { sendDueMails } from '../../kit/actors/due-mails.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { readMail, startMailServer } from '../../kit/servers/mail-server.ts'

const database = testDatabase()
const masterKey = '5e'.repeat(32)
const app = 'Café 船 "№ 1" <b>'
const [downgrade, signIn] = [newId(), newId()]

/** What each template is queued with; one that is missing does not compile. */
const queued: { [T in TemplateName]: QueuedFields<T> } = {
  'app-snapshots-failing': { app, days: 3, unsaved: `${app} (3)`, unsavedCount: 1 },
  'certificate-failing': { hostname: 'shop.example.com', days: 14, reason: 'No valid A records found' },
  'database-crashed': { database: app, ends: 2 },
  'database-disk': { database: app, usedMb: 870, limitMb: 1000, percent: 87 },
  'database-down': { database: app, ends: 5 },
  'database-memory': { database: app, usedMb: 950, limitMb: 1024, percent: 92 },
  'database-snapshots-failing': { database: app, days: 3, unsaved: `${app} (3)`, unsavedCount: 1 },
  'deploys-withdrawn': { apps: 'shop' },
  'domain-lapsed': { hostname: 'shop.example.com', hours: 72 },
  'domain-taken': { hostname: 'shop.example.com' },
  'domain-unproved': { hostname: 'shop.example.com', days: 3 },
  'downgrade-code': { downgrade, from: 'pro-12', to: 'standard-8' },
  'downgrade-refused': { from: 'pro-12', to: 'standard-8' },
  invoice: { number: app, amount: 'EUR 12.50', dueOn: '2030-01-31', url: 'https://pay.example.org/17' },
  'memory-high': { app, usedMb: 473, limitMb: 512, percent: 92 },
  'memory-out': { app, limitMb: 512 },
  'plan-ended': { plan: 'hobby-2', databases: app, databaseCount: 1 },
  'plan-ending': { plan: 'hobby-2', endsAt: '2030-01-31 12:00', databases: 'orders, users', databaseCount: 2 },
  'sign-in': { signIn },
}

/** What the codes of mails derive from. */
const confirmed: Partial<Record<TemplateName, ['downgrade' | 'sign-in', string]>> = {
  'downgrade-code': ['downgrade', downgrade],
  'sign-in': ['sign-in', signIn],
}

/** Short words that identify each language. */
const small: Record<MailLocale, string> = {
  'pt-BR': 'você não seu sua suas o do da foi ou uma é',
  'en-US': 'the your you and is it of was this not to',
  'es-ES': 'el tu tus del no y se si ha la este',
  'zh-CN': '',
  'ja-JP': '',
  'fr-FR': 'votre vos vous le la les est et ne pas ce',
  'de-DE': 'ihr ihre sie der die das und wurde nicht ist zum',
  'it-IT': 'il tuo tue la non è e di le per più',
}

/** The language that a text is written in. */
function languageOf(text: string): MailLocale {
  if (/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text)) return 'ja-JP'
  if (/\p{Script=Han}{4}/u.test(text)) return 'zh-CN'
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? []
  const hits = (locale: MailLocale) => words.filter(word => small[locale].split(' ').includes(word)).length
  return [...mailLocales].sort((a, b) => hits(b) - hits(a))[0]!
}

test('every mail in every language arrives whole at a real server', async t => {
  const { db, url } = await database
  const server = await startMailServer()
  t.teardown(() => server.stop())
  const expected = new Map<string, { template: TemplateName; locale: MailLocale }>()
  for (const locale of mailLocales)
    for (const [template, fields] of Object.entries(queued) as [TemplateName, QueuedFields<TemplateName>][]) {
      const user = await rows(db).user()
      await db('users').where({ id: user.id }).update({ locale })
      await queueMail(db, { userId: user.id, template, fields })
      expected.set(user.email!, { template, locale })
    }
  const mailer = smtpMailer({ ...server, secure: false, credentials: null })
  const from = { name: 'Größe & Söhne', address: 'berth@example.org' }
  const log = pino({ level: 'silent' })
  const options = { db, mailer, from, databaseUrl: url, log, unqueued: mailedCodes(masterKey) }
  for (let sent = 1; sent > 0; ) sent = await sendDueMails(options, new AbortController().signal)

  t.is(server.received.length, Object.keys(templates).length * 8)
  const subjects = new Map<TemplateName, Set<string>>()
  for (const raw of server.received) {
    const { headers, text } = readMail(raw)
    const { template, locale } = expected.get(headers.To!)!
    const mail = `${template} ${locale}: ${text}`
    t.true(
      raw.split('\r\n').every(line => Buffer.byteLength(line) <= 998 && !/[\r\n]/.test(line)),
      mail,
    )
    t.like(headers, { From: 'Größe & Söhne <berth@example.org>', 'Content-Language': locale }, mail)
    t.notRegex(`${headers.Subject}${text}`, /\b(?:undefined|null|NaN)\b|\$\{|\{\{|\[object|\ufffd/, mail)
    t.is(languageOf(text), locale, mail)
    t.is(text.includes('Café'), Object.values(queued[template]).includes(app), mail)
    if ('app' in queued[template] || 'database' in queued[template])
      t.true(text.includes(app) && headers.Subject!.includes(app), mail)
    const [purpose, id] = confirmed[template] ?? []
    if (purpose) t.true(isMailedCode(masterKey, purpose, id!, /^ {4}(\w{8})$/m.exec(text)?.[1] ?? ''), mail)
    subjects.set(template, (subjects.get(template) ?? new Set()).add(headers.Subject!))
  }
  for (const [template, different] of subjects) t.is(different.size, 8, `${template}: a subject of its own each`)
})
