import type { Logger } from 'pino'
import { type Mailer, MailRefused } from '../../activities/mail/port.ts'
import * as mails from '../../db/accounts/mails.ts'
import type { Db } from '../../db/database.ts'
import { Notifications } from '../../db/notifications.ts'
import { Bell, loop } from '../../lib/async/loop.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { messageOf } from '../../lib/message-of.ts'
import { codeMails, type MailTries, mailDeadlineMs, mailSlots, mailTries } from '../../policy/mail/delivery.ts'
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
  const onError = (error: unknown) => log.warn({ err: error }, 'mail: will try again')
  const slots = new MailSlots(options, bell.ring)
  await loop(() => slots.fill(signal), { signal, everyMs: everySeconds * 1000, onError, bell })
  await slots.allEnded()
  await notifications.close()
}

/** The concurrent attempts of a process. Mails with a code find a slot while all others wait for a slow server, those of their account too. */
export class MailSlots {
  readonly #open = new Map<mails.QueuedMail, Promise<void>>()

  /** `onEnd`: an attempt has ended, and its slot is free. */
  constructor(
    private readonly options: MailSenderOptions,
    private readonly onEnd: () => void = () => {},
  ) {}

  /** Begins attempts until there is no slot, or no mail that may have it; resolves to their number. */
  async fill(signal: AbortSignal): Promise<number> {
    const { db, tries = mailTries } = this.options
    let attempts = 0
    for (; !signal.aborted && this.#open.size < mailSlots.all; attempts++) {
      const mail = await mails.takeMail(db, tries, this.#allowed())
      if (!mail) break
      this.#open.set(mail, this.#attempt(mail, signal))
    }
    return attempts
  }

  async allEnded(): Promise<void> {
    await Promise.all(this.#open.values())
  }

  async #attempt(mail: mails.QueuedMail, signal: AbortSignal): Promise<void> {
    try {
      await sendOne(this.options, mail, signal)
    } catch (error) {
      this.options.log.warn({ err: error, mailId: mail.id }, 'mail: what became of an attempt could not be recorded')
    }
    this.#open.delete(mail)
    this.onEnd()
  }

  #allowed(): mails.Taking {
    const open = [...this.#open.keys()]
    const codes = open.filter(hasCode)
    const others = open.filter(mail => !hasCode(mail))
    return {
      exceptCodes: accountsWith(codes, mailSlots.codesPerAccount),
      exceptOthers: accountsWith(others, mailSlots.othersPerAccount),
      onlyCodes: others.length >= mailSlots.others,
    }
  }
}

const hasCode = ({ template }: mails.QueuedMail): boolean => Object.hasOwn(codeMails, template)

/** The accounts that have at least this many of some mails. */
function accountsWith(some: readonly mails.QueuedMail[], count: number): string[] {
  const ids = some.map(({ user_id }) => user_id)
  return ids.filter(id => ids.filter(other => other === id).length >= count)
}

async function sendOne(options: MailSenderOptions, mail: mails.QueuedMail, signal: AbortSignal): Promise<void> {
  const { db, mailer, from, log, tries = mailTries, deadlineMs = mailDeadlineMs } = options
  const { id, template, attempts } = mail
  if (mail.expired) {
    log.warn({ mailId: id, template, attempts }, 'mail: not sent, as its code is not valid any more')
    return mails.dropMail(db, id)
  }
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
  const text = messageOf(error)
  return text.replace(/\s+/g, ' ').slice(0, maxReasonLength)
}
