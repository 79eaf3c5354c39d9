import type { Logger } from 'pino'
import { type Mailer, MailRefused } from '../../activities/mail/port.ts'
import * as mails from '../../db/accounts/mails.ts'
import type { Db } from '../../db/database.ts'
import { Notifications } from '../../db/notifications.ts'
import { Bell, loop } from '../../lib/async/loop.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { type MailTries, mailDeadlineMs, mailTries } from '../../policy/mail/delivery.ts'
import type { MailSettings } from '../../policy/mail/settings.ts'
import { type MailFields, mailLocaleOf } from '../../policy/mail/template.ts'
import { writeMail } from '../../policy/mail/templates.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface MailSenderOptions {
  db: Db
  mailer: Mailer
  from: MailSettings['from']
  databaseUrl: string
  log: Logger
  /** Fields that are not stored, by template: derived from the row at each attempt. */
  unqueued?: Readonly<Record<string, (mail: mails.QueuedMail) => MailFields | Promise<MailFields>>>
  tries?: MailTries
  deadlineMs?: number
  /** How often mail that is due again is looked up, in seconds; new mail wakes the loop immediately. */
  everySeconds?: number
}

/** Concurrent connections to the mail server. */
const maxConnections = 4

/**
 * Sends queued mail until the signal aborts. Several processes may do so: each takes different mails. A crash between sending a mail and
 * recording that repeats the mail, with the same Message-ID, and never loses one.
 */
export async function sendMails(options: MailSenderOptions, signal: AbortSignal): Promise<void> {
  const { log, everySeconds = roundSeconds.mail } = options
  const notifications = new Notifications(options.databaseUrl, ['mails'])
  const bell = new Bell()
  notifications.on('notify', bell.ring)
  notifications.on('ready', bell.ring)
  await notifications.open()
  const round = async () => {
    while (!signal.aborted && (await sendDueMails(options, signal)) > 0);
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'mail: will try again')
  await loop(round, { signal, everyMs: everySeconds * 1000, onError, bell })
  await notifications.close()
}

/** Sends one batch of due mails; resolves to the number of attempts. */
export async function sendDueMails(options: MailSenderOptions, signal: AbortSignal): Promise<number> {
  const due = await mails.takeMails(options.db, maxConnections, options.tries ?? mailTries)
  await Promise.all(due.map(mail => sendOne(options, mail, signal)))
  return due.length
}

async function sendOne(options: MailSenderOptions, mail: mails.QueuedMail, signal: AbortSignal): Promise<void> {
  const { db, mailer, from, log, tries = mailTries, deadlineMs = mailDeadlineMs } = options
  const { id, template, attempts } = mail
  try {
    const fields = { ...mail.fields, ...(await options.unqueued?.[template]?.(mail)) }
    const written = writeMail(template, fields, mail.locale)
    if (!written) throw new Error(`This version does not know the template ${template}.`)
    const language = mailLocaleOf(mail.locale)
    const deadline = deadlineSignal(deadlineMs, signal)
    await mailer.send({ id, from, to: mail.email, ...written, language, date: mail.created_at }, deadline)
  } catch (error) {
    if (signal.aborted) return mails.returnMail(db, id)
    const final = error instanceof MailRefused || attempts >= tries.maxAttempts
    log.warn({ mailId: id, template, attempts, final, reason: reasonOf(error) }, 'mail: not accepted')
    return mails.recordMailFailure(db, id, reasonOf(error), final)
  }
  await mails.recordMailSent(db, id)
  log.info({ mailId: id, template, attempts }, 'mail: sent')
}

const maxReasonLength = 500

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.replace(/\s+/g, ' ').slice(0, maxReasonLength)
}
