import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { pino } from 'pino'
import type { Mailer } from '../../../activities/mail/port.ts'
import { smtpMailer } from '../../../activities/mail/smtp.ts'
import { type NewMail, queueMail, retryMails, takeMail } from '../../../db/accounts/mails.ts'
import { mailTries } from '../../../policy/mail/delivery.ts'
import { type MailSenderOptions, sendMails } from '../../../workers/loops/mail-sender.ts'
import { sendDueMails } from '../../kit/actors/due-mails.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { readMail, type Script, startMailServer } from '../../kit/servers/mail-server.ts'

const database = testDatabase()
const never = new AbortController().signal
const from = { name: 'Berth', address: 'berth@example.org' }

/** An account, a mail server that follows a script, and a sender between them whose waits are short. */
async function post(script: Script = {}, changes: Partial<MailSenderOptions> = {}) {
  const { db, url } = await database
  const server = await startMailServer()
  server.script = script
  const user = await rows(db).user()
  const options: MailSenderOptions = {
    db,
    mailer: smtpMailer({ ...server, secure: false, credentials: null }),
    from,
    databaseUrl: url,
    log: pino({ level: 'silent' }),
    tries: { firstWaitSeconds: 0, maxWaitSeconds: 0, maxAttempts: 3 },
    ...changes,
  }
  const queue = (mail: Partial<NewMail<'memory-out'>> = {}) =>
    queueMail(db, { userId: user.id, template: 'memory-out', fields: { app: 'shop', limitMb: 256 }, ...mail })
  const row = () => db('mails').where({ user_id: user.id }).orderBy('created_at', 'desc').first()
  return { db, server, user, options, queue, row, go: () => sendDueMails(options, never) }
}

test.serial('queued mail is sent immediately, in the language of its account', async t => {
  const { db, server, user, options, queue, row } = await post({}, { tries: mailTries })
  await db('users').where({ id: user.id }).update({ locale: 'de-DE' })
  const ending = new AbortController()
  const running = sendMails({ ...options, everySeconds: 60 }, ending.signal)
  await sleep(300)
  t.true(await queue())
  for (let n = 0; n < 500 && (await row()).state !== 'sent'; n++) await sleep(20)
  ending.abort()
  await running
  t.like(await row(), { state: 'sent', attempts: 1, last_error: null })
  const { headers, text } = readMail(server.received[0]!)
  t.is(headers['Message-ID'], `<${(await row()).id}@example.org>`)
  t.is(headers.Subject, 'shop wurde wegen Speichermangels beendet')
  t.is(headers.To, user.email)
  t.regex(text, /mehr als ihre 256 MB Arbeitsspeicher/)
  await server.stop()
})

test.serial('a mail is queued with its transaction, or not at all', async t => {
  const { db, server, user, queue, go } = await post()
  const cause = new Error('rolled back')
  await t.throwsAsync(
    db.transaction(async trx => {
      await queueMail(trx, { userId: user.id, template: 'memory-out', fields: { app: 'a', limitMb: 1 } })
      throw cause
    }),
    { is: cause },
  )
  t.is(await go(), 0)
  await db.transaction(trx =>
    queueMail(trx, { userId: user.id, template: 'memory-out', fields: { app: 'b', limitMb: 1 } }),
  )
  await queue()
  t.is(await go(), 2)
  t.is(server.received.length, 2)
  await server.stop()
})

test.serial('an event is mailed once, or once within a number of hours', async t => {
  const { db, server, queue, row } = await post()
  t.true(await queue({ once: 'plan/1' }))
  t.false(await queue({ once: 'plan/1' }))
  await db('mails')
    .where({ once: 'plan/1' })
    .update({ created_at: new Date(0) })
  t.false(await queue({ once: 'plan/1' }))
  const daily = { once: 'memory/1', onceInHours: 24 }
  const asked = await Promise.all(Array.from({ length: 5 }, () => queue(daily)))
  t.is(asked.filter(Boolean).length, 1)
  await db('mails')
    .where({ once: 'memory/1' })
    .update({ created_at: new Date(Date.now() - 23 * 3600_000) })
  t.false(await queue(daily))
  await db('mails')
    .where({ once: 'memory/1' })
    .update({ created_at: new Date(Date.now() - 25 * 3600_000) })
  t.true(await queue(daily))
  t.is((await row()).once, 'memory/1')
  await db('mails').delete()
  await server.stop()
})

test.serial('421 is retried, 550 is final, and both are recorded with their reason', async t => {
  const passing = await post({ recipient: [421] })
  await passing.queue()
  await passing.go()
  t.like(await passing.row(), { state: 'queued', attempts: 1 })
  t.regex((await passing.row()).last_error, /421 scripted/)
  await passing.go()
  t.like(await passing.row(), { state: 'sent', attempts: 2, last_error: null })
  t.is(passing.server.received.length, 1)
  await passing.server.stop()

  const final = await post({ recipient: [550] })
  await final.queue()
  await final.go()
  t.like(await final.row(), { state: 'failed', attempts: 1 })
  t.regex((await final.row()).last_error, /550 scripted/)
  t.is(await final.go(), 0)
  t.deepEqual(await retryMails(final.db, (await final.row()).id.slice(0, 8)), [(await final.row()).id])
  await final.go()
  t.like(await final.row(), { state: 'sent', attempts: 1 })
  t.deepEqual(await retryMails(final.db, (await final.row()).id), [], 'what is sent is not sent again')
  await final.server.stop()
})

test.serial('a connection cut after a mail was accepted repeats it, with the same Message-ID', async t => {
  const { server, queue, go, row } = await post({ taken: ['cut'] })
  await queue()
  await go()
  t.like(await row(), { state: 'queued', attempts: 1 })
  await go()
  t.like(await row(), { state: 'sent', attempts: 2 })
  const ids = server.received.map(raw => readMail(raw).headers['Message-ID'])
  t.is(ids.length, 2)
  t.is(ids[0], ids[1])
  await server.stop()
})

test.serial('a server that always refuses, or hangs, fails the mail after its last attempt', async t => {
  const { server, queue, go, row } = await post({ recipient: ['hang', 450, 450] }, { deadlineMs: 300 })
  await queue()
  for (let n = 0; n < 3; n++) t.is(await go(), 1)
  t.like(await row(), { state: 'failed', attempts: 3 })
  t.is(await go(), 0)
  await server.stop()
})

test.serial('delays double from a minute to 4 hours, and add up to about 3 days', async t => {
  const { db, server, queue, row } = await post()
  await queue()
  const waits: number[] = []
  for (let n = 0; n < mailTries.maxAttempts; n++) {
    await db('mails').update({ next_try_at: db.fn.now() })
    const before = Date.now()
    t.truthy(await takeMail(db, mailTries))
    waits.push(Math.round(((await row()).next_try_at.getTime() - before) / 60_000))
  }
  t.deepEqual(waits.slice(0, 10), [1, 2, 4, 8, 16, 32, 64, 128, 240, 240])
  const hours = waits.reduce((sum, minutes) => sum + minutes, 0) / 60
  t.true(hours > 68 && hours < 76, `${hours} h`)
  await db('mails').delete()
  await server.stop()
})

test.serial('a sender that dies loses nothing, and one that stops returns the mails it was sending', async t => {
  const { db, server, options, queue, row } = await post({ recipient: ['hang'] })
  await queue()
  t.truthy(await takeMail(db, { firstWaitSeconds: 1, maxWaitSeconds: 1, maxAttempts: 3 }))
  t.is(await takeMail(db, mailTries), undefined, 'taken by one, and not yet by another')
  await sleep(1100)
  const ending = new AbortController()
  const sending = sendDueMails({ ...options, tries: mailTries }, ending.signal)
  await sleep(200)
  ending.abort()
  await sending
  server.script = {}
  t.like(await row(), { state: 'queued', attempts: 1, last_error: null })
  t.is(await sendDueMails(options, never), 1)
  t.like(await row(), { state: 'sent' })
  await server.stop()
})

test.serial('two concurrent senders send each mail once', async t => {
  const { server, queue, go } = await post({}, { tries: mailTries })
  for (let n = 0; n < 12; n++) await queue()
  const rounds = async () => {
    while ((await go()) > 0);
  }
  await Promise.all([rounds(), rounds()])
  t.is(server.received.length, 12)
  t.is(new Set(server.received.map(raw => readMail(raw).headers['Message-ID'])).size, 12)
  await server.stop()
})

test.serial('a field that is not stored is derived from the row at each attempt', async t => {
  const unqueued = { 'memory-out': (mail: { id: string }) => ({ app: `code-${mail.id.slice(0, 4)}` }) }
  const { server, queue, go, row } = await post({ recipient: [450] }, { unqueued })
  await queue({ fields: { limitMb: 1 } as never })
  await go()
  await go()
  t.true(readMail(server.received[0]!).headers.Subject!.startsWith(`code-${(await row()).id.slice(0, 4)} `))
  t.false(JSON.stringify(await row()).includes('code-'))
  await server.stop()
})

test.serial('a mail that this version cannot write waits for one that can', async t => {
  const { db, server, user, go, row } = await post()
  await queueMail(db, { userId: user.id, template: 'from-the-future' as never, fields: {} as never })
  await go()
  t.like(await row(), { state: 'queued', last_error: 'This version does not know the template from-the-future.' })
  await server.stop()
})

test.serial('the sender continues whatever the mailer throws', async t => {
  const mailer: Mailer = { send: () => Promise.reject('a text\nof two lines') }
  const { db, server, queue, go, row } = await post({}, { mailer })
  await db('mails').delete()
  await queue()
  t.is(await go(), 1)
  t.like(await row(), { state: 'queued', last_error: 'a text of two lines' })
  await server.stop()
})

/** A server that accepts what `passes` lets through, and never answers about the rest. */
function slowServer(passes: (mail: { to: string; subject: string }) => boolean) {
  const began: { to: string; subject: string }[] = []
  const mailer: Mailer = {
    async send(mail, signal) {
      began.push(mail)
      if (!passes(mail)) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  }
  return { mailer, began }
}

const oneCode = { unqueued: { 'sign-in': () => ({ code: 'CODE1234' }) }, tries: mailTries }

test.serial('a code goes before all that wait, and is sent while a slow server keeps every other mail', async t => {
  const { mailer, began } = slowServer(({ subject }) => subject.includes('CODE1234'))
  const { db, server, options } = await post({}, { mailer, ...oneCode })
  await db('mails').delete()
  const make = rows(db)
  const waiting = await Promise.all(Array.from({ length: 6 }, () => make.user()))
  const memory = { template: 'memory-out', fields: { app: 'shop', limitMb: 256 } } as const
  for (const { id } of waiting) await queueMail(db, { userId: id, ...memory })
  await db('mails').update({ next_try_at: new Date(0) })
  const code = async () =>
    queueMail(db, { userId: (await make.user()).id, template: 'sign-in', fields: { signIn: 's' } })
  await code()
  const ending = new AbortController()
  const running = sendMails({ ...options, everySeconds: 60 }, ending.signal)
  const sent = async () => (await db('mails').where({ template: 'sign-in', state: 'sent' })).length
  await comesTrue(async () => (await sent()) === 1 && began.length === 4)
  t.true(began[0]!.subject.includes('CODE1234'))
  await code()
  await comesTrue(async () => (await sent()) === 2)
  t.is(began.length, 5, 'three slots wait for the server')
  ending.abort()
  await running
  t.is((await db('mails').where({ state: 'queued', attempts: 0 })).length, 6, 'what was begun is returned')
  await server.stop()
})

test.serial('a slot that becomes free is used at once, while others wait; and an account has two at most', async t => {
  const isSlow = new Set<string>()
  const { mailer, began } = slowServer(({ to }) => !isSlow.has(to))
  const { db, server, options, user, queue } = await post({}, { mailer, ...oneCode })
  await db('mails').delete()
  isSlow.add(user.email)
  for (let n = 0; n < 5; n++) await queue()
  await db('mails').update({ next_try_at: new Date(0) })
  const others = await Promise.all(Array.from({ length: 6 }, () => rows(db).user()))
  for (const { id } of others) await queue({ userId: id })
  const ending = new AbortController()
  const running = sendMails({ ...options, everySeconds: 60 }, ending.signal)
  await comesTrue(async () => (await db('mails').where({ state: 'sent' })).length === 6)
  const slow = () => began.filter(({ to }) => to === user.email)
  t.is(slow().length, 2)
  await queue({ template: 'sign-in', fields: { signIn: 's' } } as never)
  await comesTrue(() => slow().length === 3)
  t.true(slow()[2]!.subject.includes('CODE1234'), 'and one for a code')
  ending.abort()
  await running
  await server.stop()
})

test.serial('a code that is not valid any more is not sent', async t => {
  const { db, server, queue, go, row, user } = await post({}, oneCode)
  await db('mails').delete()
  await queueMail(db, { userId: user.id, template: 'sign-in', fields: { signIn: 's' } })
  const age = (minutes: number) =>
    db('mails').update({ created_at: db.raw('now() - make_interval(mins => ?)', [minutes]) })
  await age(11)
  t.is(await go(), 1)
  t.is(await row(), undefined, 'there is nothing that an operator could do')
  t.is(server.received.length, 0)
  await queueMail(db, { userId: user.id, template: 'sign-in', fields: { signIn: 's' } })
  await queue()
  await age(9)
  t.is(await go(), 2)
  t.is(server.received.length, 2)
  await db('mails').delete()
  await queue()
  await age(600)
  t.is(await go(), 1)
  t.is(server.received.length, 3, 'mails without a code do not expire')
  await server.stop()
})
