import { newId } from '../policy/ids.ts'
import { type Db, transaction } from './database.ts'
import { queueMail } from './mails.ts'

/** How long a mailed code is good for. */
export const signInSeconds = 600
/** Wrong codes that one sign-in takes. */
const mostAttempts = 5
/** Mails that one address is sent within `signInSeconds`, whoever asks for them. */
const mostMails = 5

/**
 * Begins to sign somebody in: the code goes to the address if it is an account's. Whether it is stays unknown to whoever asks, so
 * the answer is an id either way. `admit` may refuse it by throwing, before anything is sent.
 */
export async function beginSignIn(
  db: Db,
  email: string,
  admit: (trx: Db, id: string) => Promise<void> = async () => {},
): Promise<string> {
  const id = newId()
  await transaction(db, async trx => {
    // Those who count the same mails take turns.
    const user = await trx('users')
      .whereRaw('lower(email) = lower(?)', [email])
      .where({ blocked_at: null })
      .forNoKeyUpdate()
      .first('id')
    await trx.raw(`insert into sign_ins (id, user_id, expires_at) values (?, ?, now() + make_interval(secs => ?))`, [
      id,
      user?.id ?? null,
      signInSeconds,
    ])
    await admit(trx, id)
    if (!user) return
    const [counted] = await trx('sign_ins')
      .where({ user_id: user.id })
      .whereRaw('created_at > now() - make_interval(secs => ?)', [signInSeconds])
      .count()
    if (Number(counted?.count) <= mostMails)
      await queueMail(trx, { userId: user.id, template: 'sign-in', fields: { signIn: id } })
  })
  return id
}

/** Spends an attempt and, when the code is right, the sign-in: resolves to the account, once. Undefined otherwise, whatever was wrong. */
export async function endSignIn(db: Db, id: string, isRight: () => boolean): Promise<string | undefined> {
  const tried = await db('sign_ins')
    .where({ id, used_at: null })
    .where('attempts', '<', mostAttempts)
    .whereRaw('expires_at > now()')
    .increment('attempts')
  if (tried === 0 || !isRight()) return undefined
  const [used] = await db('sign_ins')
    .where({ id, used_at: null })
    .whereNotNull('user_id')
    .update({ used_at: db.fn.now() })
    .returning('user_id')
  return used?.user_id
}

/** How long a session may be renewed, in days from its beginning. */
const sessionDays = 30

/** Lets a live session go on; undefined when it ended, was revoked, or has lived as long as one may. */
export async function renewSession(db: Db, id: string, lifeSeconds: number): Promise<Date | undefined> {
  const { rows } = await db.raw(
    `update sessions set expires_at = least(now() + make_interval(secs => :life), created_at + make_interval(days => :days))
      where id = :id and revoked_at is null and expires_at > now() and created_at > now() - make_interval(days => :days)
      returning expires_at`,
    { id, life: lifeSeconds, days: sessionDays },
  )
  return rows[0]?.expires_at
}

export async function sweepSignIns(db: Db): Promise<void> {
  await db.raw(`delete from sign_ins where expires_at < now() - interval '1 day'`)
  await db.raw(`delete from authorizations where expires_at < now() - interval '1 day'`)
}
