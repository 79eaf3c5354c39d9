import { captchaSeconds } from '../../policy/accounts/captcha.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'

export interface SolvedCaptcha {
  answerHash: Buffer
  address: string
  /** What it counts for. */
  signInId?: string
  sessionId?: string
}

/** Makes a solved captcha count; false when it has counted already, for whatever and whomever. */
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

/** What was solved to begin a sign-in counts for the session that it ends with, if that begins at the same address. */
export async function passCaptchaOn(
  db: Db,
  { signInId, sessionId, address }: { signInId: string; sessionId: string; address: string },
): Promise<void> {
  await db('captchas').where({ sign_in_id: signInId, address, session_id: null }).update({ session_id: sessionId })
}

/** Whether a captcha was solved for a session from this address. */
export async function hasSolvedCaptcha(db: Db, sessionId: string, address: string): Promise<boolean> {
  return (await db('captchas').where({ session_id: sessionId, address }).first('address')) !== undefined
}

/** Those of a session go with it; the others are kept until their provider no longer takes them for fresh, twice over. */
export function sweepCaptchas(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'captchas',
    when: 'old.session_id is null and old.solved_at < now() - make_interval(secs => :seconds)',
    values: { seconds: 2 * captchaSeconds },
  })
}
