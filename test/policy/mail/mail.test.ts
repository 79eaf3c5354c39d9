import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { mailWay } from '../../../policy/mail/settings.ts'
import { type MailFields, type MailLocale, mailLocaleOf, mailLocales } from '../../../policy/mail/template.ts'
import { templates, writeMail } from '../../../policy/mail/templates.ts'

/** Values that can be distinguished, for every field of every template. */
const samples: MailFields = {
  ...{ app: 'Größe', usedMb: 473, limitMb: 512, percent: 92, signIn: '', code: 'Größe' },
  ...{
    downgrade: '',
    from: 'pro-12',
    to: 'standard-8',
    plan: 'hobby-2',
    apps: 'Größe, shop',
    endsAt: '2030-01-31 12:00',
  },
  ...{ database: 'Größe', ends: 5, days: 4, databases: 'Größe, shop', databaseCount: 2 },
  ...{ unsaved: 'Größe (3), shop (4)', unsavedCount: 2 },
  ...{ number: 'R-2030/17', amount: 'EUR 12.50', dueOn: '2030-01-31', url: 'https://pay.example.org/17' },
  ...{ hostname: 'shop.example.org', hours: 72, reason: 'No valid A records' },
}

test('every template uses each of its fields in each of 8 languages, and no two languages are equal', t => {
  t.is(mailLocales.length, 8)
  for (const [name, languages] of Object.entries(templates)) {
    const texts = mailLocales.map(locale => {
      const asked = new Set<string>()
      const watched = new Proxy(samples, {
        get(values, field) {
          asked.add(String(field))
          return values[String(field)]
        },
      })
      const { subject, text } = languages[locale](watched as never)
      for (const field of asked) t.true(text.includes(String(samples[field])), `${name} ${locale} ${field}: ${text}`)
      t.notRegex(subject + text, /undefined|NaN|\$\{/)
      t.false(subject.includes('\n'))
      return { locale, fields: [...asked].sort().join(), text }
    })
    t.is(new Set(texts.map(({ fields }) => fields)).size, 1, `${name}: every language has the same fields`)
    t.is(new Set(texts.map(({ text }) => text)).size, 8, name)
  }
})

test('mails about the end of a plan name the databases that it stops: none, one or several', t => {
  for (const template of ['plan-ending', 'plan-ended'])
    for (const locale of mailLocales) {
      const write = (databases: string, databaseCount: number) =>
        writeMail(template, { ...samples, databases, databaseCount }, locale)!.text
      const [none, one, more] = [write('', 0), write('orders', 1), write('orders, users, …', 12)]
      t.true(one.includes('orders') && one.includes('30') && !/\b1\b/.test(one), one)
      t.true(more.includes('orders, users, …') && more.includes('12') && more.includes('30'), more)
      t.notRegex(none, /\b30\b/)
      const [rest] = none.split('\n\n-- \n')
      for (const text of [one, more]) t.true(text.startsWith(`${rest}\n\n`), text)
      t.not(one.replaceAll('orders', ''), more.replaceAll(/orders, users, …|12/g, ''), 'another grammatical number')
      const { databases: _, databaseCount: __, ...older } = samples
      t.is(writeMail(template, older, locale)!.text, none, 'one that an earlier version has queued')
    }
})

test('mails about missing snapshots name one application or database, or several with the days of each', t => {
  for (const template of ['app-snapshots-failing', 'database-snapshots-failing'])
    for (const locale of mailLocales) {
      const write = (unsaved: string, unsavedCount: number) =>
        writeMail(template, { ...samples, app: 'orders', database: 'orders', days: 3, unsaved, unsavedCount }, locale)!
      const list = Array.from({ length: 20 }, (_, n) => `application-with-a-long-name-${n} (${n})`).join(', ')
      const [one, more] = [write('orders (3)', 1), write(`${list}, …`, 31)]
      t.true(one.text.includes('orders') && one.text.includes('3') && one.subject.includes('orders'), one.text)
      t.true(more.text.includes(list) && more.subject.includes('31') && !more.text.includes('orders'), more.text)
      const older = writeMail(template, { app: 'orders', database: 'orders', days: 3 }, locale)!
      t.deepEqual(older, one, 'one that an earlier version has queued')
    }
})

test('an account with another locale gets mail in English', t => {
  t.is(mailLocaleOf('ja-JP'), 'ja-JP')
  for (const stored of ['', 'en', 'pt', 'xx-XX', 'JA-jp', 'constructor']) t.is(mailLocaleOf(stored), 'en-US')
  t.is(writeMail('memory-out', samples, 'xx-XX')?.subject, 'Größe was terminated because it ran out of memory')
})

test('the name of an application becomes one harmless line, and an unknown template gives no mail', t => {
  const hostile = `a\r\nBcc: x@example.org\u2028b\u0000\u202ec${'ü'.repeat(200)}`
  const { subject } = writeMail('memory-out', { ...samples, app: hostile }, 'en-US')!
  t.true(subject.startsWith('a Bcc: x@example.org b c'))
  t.true(subject.length < 160)
  t.is(writeMail('constructor', samples, 'en-US'), undefined)
  t.is(writeMail('from-the-future', samples, 'en-US'), undefined)
})

test('names of domains and what an authority says are not cut', t => {
  const hostname = `${'a'.repeat(60)}.`.repeat(3) + 'b'.repeat(54)
  const reason = 'r'.repeat(500)
  const { subject, text } = writeMail('certificate-failing', { hostname, reason, days: 3 }, 'en-US')!
  t.is(hostname.length, 237)
  t.true(subject.includes(hostname) && text.includes(hostname) && text.includes(reason))
})

const oneDay: Record<MailLocale, string> = {
  'pt-BR': 'expira em 1 dia e não',
  'en-US': 'expires in 1 day and could',
  'es-ES': 'caduca en 1 día y hasta',
  'zh-CN': '将在 1 天后到期',
  'ja-JP': '1 日後に期限が切れます',
  'fr-FR': "expire dans 1 jour et n'a",
  'de-DE': 'läuft in 1 Tag ab',
  'it-IT': 'scade tra 1 giorno e finora',
}

test('a certificate expires in 1 day, and an expired one does not expire in 0 days', t => {
  const write = (days: number, locale: string) => writeMail('certificate-failing', { ...samples, days }, locale)!
  for (const locale of mailLocales) {
    t.true(write(1, locale).text.includes(oneDay[locale]), locale)
    t.regex(write(2, locale).text, /\b2\b/)
    t.notRegex(write(0, locale).text, /0/)
    t.not(write(0, locale).subject, write(1, locale).subject)
  }
  t.regex(write(0, 'en-US').text, /expires today or has expired/)
})

test('the settings select a server or a folder, and an error names the setting without its password', t => {
  const of = (env: Record<string, string>) => parseConfig({ BERTH_DATA: '/d', ...env }, '/').mail
  t.deepEqual(of({}), { smtp: null, folder: '/d/mail', from: { name: 'Berth', address: 'berth@localhost' } })
  t.is(mailWay(of({})), 'files in /d/mail (no SMTP_URL is set)')
  const set = of({
    SMTP_URL: 'smtp://ana%40example.org:p%3Aw@mail.example.org',
    MAIL_FROM: 'Ships Ltd. <noreply@example.org>',
  })
  t.deepEqual(set.smtp, {
    ...{ host: 'mail.example.org', port: 587, secure: false },
    credentials: { user: 'ana@example.org', pass: 'p:w' },
  })
  t.deepEqual(set.from, { name: 'Ships Ltd.', address: 'noreply@example.org' })
  t.is(mailWay(set), 'smtp://mail.example.org:587')
  const from = { MAIL_FROM: 'a@example.org' }
  t.like(of({ SMTP_URL: 'smtps://[::1]', ...from }).smtp, { host: '::1', port: 465, secure: true, credentials: null })
  t.is(of({ SMTP_URL: 'smtp://127.0.0.1:2525', ...from }).smtp?.port, 2525)
  for (const url of ['mail.example.org', 'http://mail.example.org', 'smtp://', 'smtp://u:secret@:25'])
    t.notRegex(t.throws(() => of({ SMTP_URL: url, ...from }), { message: /SMTP_URL/ })!.message, /secret/)
  t.throws(() => of({ SMTP_URL: 'smtp://mail.example.org' }), { message: /MAIL_FROM/ })
  for (const sender of ['nobody', 'A <a@b>, B <c@d>', 'A\r\nX: <a@b>'])
    t.throws(() => of({ MAIL_FROM: sender }), { message: /MAIL_FROM/ })
})
