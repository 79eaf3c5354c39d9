import { z } from 'zod'
import { beginDowngrade, confirmDowngrade, findDowngrade } from '../../../db/accounts/downgrades.ts'
import { isUnavailable } from '../../../db/database.ts'
import { isMailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { ApiError } from '../../../policy/errors.ts'
import { success } from '../../http/respond.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

/** A confirmed step is applied within milliseconds; it is certain however long it takes, so its caller is not held for longer. */
const appliedWithinMs = 10_000

/** Contract 3.6: without a code one is mailed, with it the next lower plan of the table is taken. */
export const downgradePlan = endpoint({
  name: 'account.downgrade',
  method: 'POST',
  path: '/v2/account/downgrade',
  summary: 'Change to the next lower plan, confirmed by a code that is mailed',
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
    const isRight = (id: string) => isMailedCode(config.masterKey, 'downgrade', id, confirmCode)
    const id = await confirmDowngrade(db, plans, userId, isRight)
    wake(services, userId)
    if (await isRefused(id, exchange.signal, services)) throw new ApiError('DOWNGRADE_NOT_ALLOWED')
    return success(undefined, 'CONFIRM_CODE_VALIDATED')
  },
})

/** A wake-up may fail: the row says what is due, and the relay finds it. */
function wake({ downgrades, log }: Services, userId: string): void {
  downgrades.wake(userId).catch(err => log.warn({ err, userId }, 'downgrade: not woken, the relay heals it'))
}

/** Waits until the step is made; true when something came in its way after it was confirmed. */
async function isRefused(id: string, signal: AbortSignal, { db, outcomes }: Services): Promise<boolean> {
  const until = performance.now() + appliedWithinMs
  while (!signal.aborted && performance.now() < until) {
    // It is confirmed, so a database that is away for a moment is asked again, not reported.
    const step = await findDowngrade(db, id).catch(error => {
      if (!isUnavailable(error)) throw error
    })
    if (step && step.state !== 'confirmed') return step.state === 'refused'
    await outcomes.news(id, until - performance.now(), signal)
  }
  return false
}
