import { type SentLately, signInMail, signInSeconds } from '../../policy/accounts/sign-in-mails.ts'
import { signInTerms } from '../../policy/accounts/sign-in-terms.ts'
import { newId } from '../../policy/ids.ts'
import { retentionTimes } from '../../policy/retention.ts'
import { type Db, transaction } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { queueMailIf } from './mails.ts'

export interface NewSignIn {
  email: string
  /** The network of the client. */
  network: string
  /** May refuse the sign-in by throwing, before a mail is sent. */
  admit?: (trx: Db, id: string) => Promise<void>
}

/**
 * Starts a sign-in: the code is mailed to the address if it has an account. The caller must not learn whether it has, so the result is
 * an id either way, and so are the statements.
 */
export async function beginSignIn(db: Db, { email, network, admit = async () => {} }: NewSignIn): Promise<string> {
  const id = newId()
  await transaction(db, async trx => {
    // Serializes sign-ins that count the same mails.
    const user = await trx('users')
      .whereRaw('lower(email) = lower(?)', [email])
      .where({ blocked_at: null })
      .forNoKeyUpdate()
      .first('id')
    const userId: string | null = user?.id ?? null
    const { codeOf, sent } = signInMail(await sentLately(trx, userId, network))
    await trx.raw(
      `insert into sign_ins (id, user_id, network, mailed, code_of, expires_at)
       values (:id, :userId, :network, :mailed, :codeOf, now() + make_interval(secs => :seconds))`,
      { id, userId, network, mailed: sent && userId !== null, codeOf, seconds: signInSeconds },
    )
    await admit(trx, id)
    await queueMailIf(trx, sent, { userId, template: 'sign-in', fields: { signIn: codeOf ?? id } })
  })
  return id
}

async function sentLately(trx: Db, userId: string | null, network: string): Promise<SentLately> {
  const { rows } = await trx.raw(
    `select count(*)::int as "all", (count(*) filter (where network = :network))::int as "byNetwork",
            (array_agg(id order by created_at desc) filter (where code_of is null and used_at is null))[1] as open
       from sign_ins
      where user_id = :userId and mailed and created_at > now() - make_interval(secs => :seconds)`,
    { userId, network, seconds: signInSeconds },
  )
  return rows[0]
}

/**
 * Spends an attempt and, when the code is right, the code, for every sign-in that shares it: resolves to the account, once. Undefined
 * otherwise, for every reason. `isRight` receives the id of the sign-in whose code counts.
 */
export async function endSignIn(db: Db, id: string, isRight: (codeOf: string) => boolean): Promise<string | undefined> {
  const [attempted] = await db('sign_ins')
    .where({ id, used_at: null })
    .where('attempts', '<', signInTerms.attempts)
    .whereRaw('expires_at > now()')
    .update({ attempts: db.raw('attempts + 1') })
    .returning('code_of')
  const codeOf: string | undefined = attempted && (attempted.code_of ?? id)
  if (codeOf === undefined || !isRight(codeOf)) return undefined
  const [used] = await db('sign_ins')
    .where({ id: codeOf, used_at: null })
    .whereNotNull('user_id')
    .update({ used_at: db.fn.now() })
    .returning('user_id')
  return used?.user_id
}

/** Extends a live session; undefined when it ended, was revoked, or has reached its maximum age. */
export async function renewSession(db: Db, id: string, lifeSeconds: number): Promise<Date | undefined> {
  const { rows } = await transaction(db, trx =>
    trx.raw(
      `update sessions set expires_at = least(now() + make_interval(secs => :life), created_at + make_interval(days => :days))
        where id = :id and revoked_at is null and expires_at > now() and created_at > now() - make_interval(days => :days)
        returning expires_at`,
      { id, life: lifeSeconds, days: signInTerms.sessionDays },
    ),
  )
  return rows[0]?.expires_at
}

export function sweepSignIns(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'sign_ins', when: overForADay })
}

/** Deletes grants of browser sign-in that ended a day ago. */
export function sweepAuthorizations(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'authorizations', when: overForADay })
}

/** Deletes sessions that ended a day ago. */
export function sweepSessions(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'sessions', when: overForADay })
}

const overForADay = `old.expires_at < now() - interval '${retentionTimes.endedDays} day'`
