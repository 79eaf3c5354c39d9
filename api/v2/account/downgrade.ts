import { z } from 'zod'
import { beginDowngrade, confirmDowngrade, findDowngrade } from '../../../db/accounts/downgrades.ts'
import { isUnavailable } from '../../../db/database.ts'
import { codeLength, isMailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { CodedError } from '../../../policy/errors.ts'
import { success } from '../../http/respond.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

/** A confirmed step is usually applied within milliseconds. It will be applied in any case, so its caller does not wait longer. */
const appliedWithinMs = 10_000

/** Contract 3.6: without a code, one is mailed; with it, the account changes to the next lower plan of the table. */
export const downgradePlan = endpoint({
  name: 'account.downgrade',
  method: 'POST',
  path: '/v2/account/downgrade',
  summary: 'Change to the next lower plan, confirmed by a mailed code',
  auth: 'session',
  body: z.object({ confirmCode: z.string({ error: 'CONFIRM_CODE_INVALID' }).optional() }),
  envelope: false,
  errors: ['CONFIRM_CODE_SENT', 'CONFIRM_CODE_INVALID', 'DOWNGRADE_NOT_ALLOWED'],
  async handle({ caller, body: { confirmCode }, exchange }, services) {
    const { db, plans, config } = services
    const { id: userId } = caller.user
    if (confirmCode === undefined) {
      await beginDowngrade(db, plans, userId)
      wake(services, userId)
      return success(undefined, 'CONFIRM_CODE_SENT')
    }
    // Where people type a code, spaces around it do not matter; here it is the code alone.
    const isRight = (id: string) =>
      confirmCode.length === codeLength && isMailedCode(config.masterKey, 'downgrade', id, confirmCode)
    const id = await confirmDowngrade(db, plans, userId, isRight)
    wake(services, userId)
    if (await isRefused(id, exchange.signal, services)) throw new CodedError('DOWNGRADE_NOT_ALLOWED')
    return success(undefined, 'CONFIRM_CODE_VALIDATED')
  },
})

/** A wake-up may fail: the row is stored, and the relay finds it. */
function wake({ downgrades, log }: Services, userId: string): void {
  downgrades
    .wake(userId)
    .catch(err => log.warn({ err, userId }, 'the wake-up of a step to a lower plan failed; the relay repeats it'))
}

/** Waits until the step is applied; true when it was refused after its confirmation. */
async function isRefused(id: string, signal: AbortSignal, { db, outcomes }: Services): Promise<boolean> {
  const until = performance.now() + appliedWithinMs
  while (!signal.aborted && performance.now() < until) {
    // The step is confirmed, so the query is repeated while the database is unavailable, instead of failing.
    const step = await findDowngrade(db, id).catch(error => {
      if (!isUnavailable(error)) throw error
    })
    if (step && step.state !== 'confirmed') return step.state === 'refused'
    await outcomes.next(id, until - performance.now(), signal)
  }
  return false
}
