import { captchaSeconds } from '../../policy/accounts/captcha.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

export interface SolvedCaptcha {
  answerHash: Buffer
  address: string
  /** The sign-in or session that it counts for. */
  signInId?: string
  sessionId?: string
}

/** Spends a solved captcha; false when it was spent already, for any purpose and any account. */
export async function spendCaptcha(db: Db, captcha: SolvedCaptcha): Promise<boolean> {
  const spent = await db('captchas')
    .insert({
      answer_hash: captcha.answerHash,
      address: captcha.address,
      sign_in_id: captcha.signInId ?? null,
      session_id: captcha.sessionId ?? null,
    })
    .onConflict('answer_hash')
    .ignore()
    .returning('address')
  return spent.length === 1
}

/** A captcha solved for a sign-in also counts for the resulting session, if that starts at the same address. */
export async function assignCaptchaToSession(
  db: Db,
  { signInId, sessionId, address }: { signInId: string; sessionId: string; address: string },
): Promise<void> {
  await db('captchas').where({ sign_in_id: signInId, address, session_id: null }).update({ session_id: sessionId })
}

/** Whether a captcha was solved for a session from this address. */
export async function hasSolvedCaptcha(db: Db, sessionId: string, address: string): Promise<boolean> {
  return (await db('captchas').where({ session_id: sessionId, address }).first('address')) !== undefined
}

/** Captchas of a session are deleted with it; the others after twice the time for which their provider accepts an answer. */
export function sweepCaptchas(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'captchas',
    when: 'old.session_id is null and old.solved_at < now() - make_interval(secs => :seconds)',
    values: { seconds: 2 * captchaSeconds },
  })
}
