import { newId } from '../../policy/ids.ts'
import { codeMails, type MailTries, mailsRetainedDays } from '../../policy/mail/delivery.ts'
import type { MailFields } from '../../policy/mail/template.ts'
import type { QueuedFields, TemplateName } from '../../policy/mail/templates.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

export interface NewMail<T extends TemplateName> {
  userId: string
  template: T
  fields: QueuedFields<T>
  /** Identifies an occasion that is mailed only once, or once in `onceInHours`. */
  once?: string
  onceInHours?: number
}

/** Stores a mail in the transaction of its reason, and wakes the sender. False when its occasion was mailed already. */
export async function queueMail<T extends TemplateName>(db: Db, mail: NewMail<T>): Promise<boolean> {
  const { userId, template, fields, once = null, onceInHours } = mail
  if (once !== null && onceInHours !== undefined)
    await db('mails')
      .where({ once })
      .whereRaw('created_at < now() - make_interval(hours => ?)', [onceInHours])
      .update({ once: null })
  const queued = await db('mails')
    .insert({ id: newId(), user_id: userId, template, fields: JSON.stringify(fields), once })
    .onConflict('once')
    .ignore()
    .returning('id')
  if (queued.length > 0) await db.raw(`select pg_notify('mails', '')`)
  return queued.length > 0
}

/** The mail about an occasion that is mailed only once; undefined once it is deleted. */
export async function findMailOf(
  db: Db,
  once: string,
): Promise<Pick<MailLine, 'id' | 'state' | 'created_at'> | undefined> {
  return db('mails').where({ once }).first('id', 'state', 'created_at')
}

/** Queues a mail, or nothing, with the same statements, so that the time taken does not reveal which. Nothing without an account. */
export async function queueMailIf<T extends TemplateName>(
  db: Db,
  condition: boolean,
  { userId, template, fields }: Omit<NewMail<T>, 'userId' | 'once' | 'onceInHours'> & { userId: string | null },
): Promise<void> {
  await db.raw(
    `insert into mails (id, user_id, template, fields)
     select :id, :userId::text, :template, :fields::jsonb where :wanted::boolean and :userId::text is not null`,
    { id: newId(), userId, template, fields: JSON.stringify(fields), wanted: condition },
  )
  await db.raw(`select pg_notify('mails', '')`)
}

/** A mail that is due, with address and language of its account. */
export interface QueuedMail {
  id: string
  user_id: string
  template: string
  fields: MailFields
  /** Including this one. */
  attempts: number
  created_at: Date
  email: string
  locale: string
  /** It has a code that is not valid any more. */
  expired: boolean
}

/** Which mails a sender takes: accounts of which it takes none, by whether the mail has a code. */
export interface Taking {
  exceptCodes?: readonly string[]
  exceptOthers?: readonly string[]
  onlyCodes?: boolean
}

/** Written out, as in the index `mails_codes`. */
const hasCode = `template in (${Object.keys(codeMails)
  .map(template => `'${template}'`)
  .join(', ')})`

/**
 * Takes a mail that is due, one with a code before any other. No other sender takes it until the wait after a failed attempt is over: a sender
 * that dies delays its mails and loses none.
 */
export async function takeMail(
  db: Db,
  tries: MailTries,
  { exceptCodes = [], exceptOthers = [], onlyCodes = false }: Taking = {},
): Promise<QueuedMail | undefined> {
  const code = await take(db, tries, { only: hasCode, except: exceptCodes })
  return code ?? (onlyCodes ? undefined : take(db, tries, { only: `not ${hasCode}`, except: exceptOthers }))
}

async function take(
  db: Db,
  tries: MailTries,
  { only, except }: { only: string; except: readonly string[] },
): Promise<QueuedMail | undefined> {
  const { rows } = await db.raw(
    `with due as materialized (
       select id from mails where state = 'queued' and next_try_at <= now() and ${only} and user_id <> all(:except::text[])
        order by next_try_at limit 1 for update skip locked)
     update mails m
        set attempts = m.attempts + 1,
            next_try_at = now() + make_interval(secs => least(:maxWait, :first * power(2, m.attempts)))
       from due, users u
      where m.id = due.id and u.id = m.user_id
      returning m.id, m.user_id, m.template, m.fields, m.attempts, m.created_at, u.email, u.locale,
        coalesce(m.created_at < now() - make_interval(secs => (:codes::jsonb ->> m.template)::int), false) as expired`,
    { maxWait: tries.maxWaitSeconds, first: tries.firstWaitSeconds, except, codes: JSON.stringify(codeMails) },
  )
  return rows[0]
}

export async function recordMailSent(db: Db, id: string): Promise<void> {
  await db('mails').where({ id }).update({ state: 'sent', sent_at: db.fn.now(), last_error: null })
}

/** Removes a mail whose code is not valid any more: nothing is to be sent, nor is anything to be repaired. */
export async function dropMail(db: Db, id: string): Promise<void> {
  await db('mails').where({ id, state: 'queued' }).delete()
}

/** An attempt failed; `final` = the last one. */
export async function recordMailFailure(db: Db, id: string, error: string, final: boolean): Promise<void> {
  await db('mails')
    .where({ id, state: 'queued' })
    .update({ last_error: error, ...(final && { state: 'failed' }) })
}

/** The sender stops during an attempt: the mail is due immediately, and the attempt does not count. */
export async function returnMail(db: Db, id: string): Promise<void> {
  await db('mails')
    .where({ id, state: 'queued' })
    .update({ next_try_at: db.fn.now(), attempts: db.raw('attempts - 1') })
}

export interface MailLine {
  id: string
  template: string
  state: 'queued' | 'sent' | 'failed'
  attempts: number
  last_error: string | null
  created_at: Date
  next_try_at: Date
  sent_at: Date | null
  email: string
}

/** Queued and failed mails, newest first; with `sent` also those that were sent. */
export async function listMails(db: Db, { sent, limit }: { sent: boolean; limit: number }): Promise<MailLine[]> {
  return db('mails')
    .join('users', 'users.id', 'mails.user_id')
    .whereIn('mails.state', sent ? ['queued', 'failed', 'sent'] : ['queued', 'failed'])
    .orderBy('mails.created_at', 'desc')
    .limit(limit)
    .select(
      ...['id', 'template', 'state', 'attempts', 'last_error', 'created_at', 'next_try_at', 'sent_at'].map(
        name => `mails.${name}`,
      ),
      'users.email',
    )
}

/** Numbers of queued and failed mails. */
export async function countMails(db: Db): Promise<{ queued: number; failed: number }> {
  const { rows } = await db.raw(
    `select count(*) filter (where state = 'queued')::int as queued, count(*) filter (where state = 'failed')::int as failed
       from mails where state <> 'sent'`,
  )
  return rows[0]
}

/** Makes queued and failed mails due immediately, with all attempts ahead; `start` is an id or its first characters. Resolves to their ids. */
export async function retryMails(db: Db, start: string): Promise<string[]> {
  const retried = await db('mails')
    .whereIn('state', ['queued', 'failed'])
    .whereRaw('starts_with(id, ?)', [start])
    .update({ state: 'queued', attempts: 0, next_try_at: db.fn.now() })
    .returning('id')
  if (retried.length > 0) await db.raw(`select pg_notify('mails', '')`)
  return retried.map(({ id }) => id)
}

/** Deletes mails that were sent or failed, a month after they were queued. */
export function sweepMails(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'mails',
    when: `old.state <> 'queued' and old.created_at < now() - make_interval(days => :days)`,
    values: { days: mailsRetainedDays },
  })
}
