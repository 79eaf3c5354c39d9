import { newId } from '../../policy/ids.ts'
import { type MailTries, mailsKeptDays } from '../../policy/mail/delivery.ts'
import type { MailFields } from '../../policy/mail/template.ts'
import type { QueuedFields, TemplateName } from '../../policy/mail/templates.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

export interface NewMail<T extends TemplateName> {
  userId: string
  template: T
  fields: QueuedFields<T>
  /** An occasion that is told only once, or once in so many hours. */
  once?: string
  onceInHours?: number
}

/** Writes a mail down with whatever else its transaction does, and wakes the sender. False when its occasion was told already. */
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

/** Queues a mail, or nothing, with the same statements: how long it takes does not tell which. Nothing too without an account. */
export async function queueMailIf<T extends TemplateName>(
  db: Db,
  wanted: boolean,
  { userId, template, fields }: Omit<NewMail<T>, 'userId' | 'once' | 'onceInHours'> & { userId: string | null },
): Promise<void> {
  await db.raw(
    `insert into mails (id, user_id, template, fields)
     select :id, :userId::text, :template, :fields::jsonb where :wanted::boolean and :userId::text is not null`,
    { id: newId(), userId, template, fields: JSON.stringify(fields), wanted },
  )
  await db.raw(`select pg_notify('mails', '')`)
}

/** A mail that is to be tried now, with what its account says of where and in which language. */
export interface QueuedMail {
  id: string
  user_id: string
  template: string
  fields: MailFields
  /** How often it was tried, this time included. */
  attempts: number
  created_at: Date
  email: string
  locale: string
}

/**
 * Takes up to `most` mails that are due. Nobody else takes them until the wait of a failed try is over, so that a sender which
 * dies delays its mails and loses none.
 */
export async function takeMails(db: Db, most: number, tries: MailTries): Promise<QueuedMail[]> {
  const { rows } = await db.raw(
    `with due as materialized (
       select id from mails where state = 'queued' and next_try_at <= now()
        order by next_try_at limit :most for update skip locked)
     update mails m
        set attempts = m.attempts + 1,
            next_try_at = now() + make_interval(secs => least(:longest, :first * power(2, m.attempts)))
       from due, users u
      where m.id = due.id and u.id = m.user_id
      returning m.id, m.user_id, m.template, m.fields, m.attempts, m.created_at, u.email, u.locale`,
    { longest: tries.longestWaitSeconds, first: tries.firstWaitSeconds, most },
  )
  return rows
}

export async function recordSent(db: Db, id: string): Promise<void> {
  await db('mails').where({ id }).update({ state: 'sent', sent_at: db.fn.now(), last_error: null })
}

/** A try failed; `final` = there is none after it. */
export async function recordFailure(db: Db, id: string, error: string, final: boolean): Promise<void> {
  await db('mails')
    .where({ id, state: 'queued' })
    .update({ last_error: error, ...(final && { state: 'failed' }) })
}

/** The sender stops in the middle of a try: another may go on at once, and the try does not count. */
export async function giveBack(db: Db, id: string): Promise<void> {
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

/** Newest first: what waits and what failed; with `sent` also what went out. */
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

/** How many wait and how many failed. */
export async function countMails(db: Db): Promise<{ queued: number; failed: number }> {
  const { rows } = await db.raw(
    `select count(*) filter (where state = 'queued')::int as queued, count(*) filter (where state = 'failed')::int as failed
       from mails where state <> 'sent'`,
  )
  return rows[0]
}

/** Tries what waits or has failed again at once, from the first try on; `start` is an id or its first characters. Resolves to their ids. */
export async function retryMails(db: Db, start: string): Promise<string[]> {
  const retried = await db('mails')
    .whereIn('state', ['queued', 'failed'])
    .whereRaw('starts_with(id, ?)', [start])
    .update({ state: 'queued', attempts: 0, next_try_at: db.fn.now() })
    .returning('id')
  if (retried.length > 0) await db.raw(`select pg_notify('mails', '')`)
  return retried.map(({ id }) => id)
}

/** Removes what was sent or has failed a month ago. */
export function sweepMails(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'mails',
    when: `old.state <> 'queued' and old.created_at < now() - make_interval(days => :days)`,
    values: { days: mailsKeptDays },
  })
}
