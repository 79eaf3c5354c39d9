import { recordRefusal } from '../../../db/ai/ai-usage.ts'
import { CodedError, shownCode } from '../../../policy/errors.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { keyOf } from './chat-calls.ts'

/** What the endpoints of the AI gateway have in common (contract 13.1). */
export const gateway = {
  wire: 'ai',
  auth: { scope: 'ai:chat' },
  envelope: false,
  errors: ['UPGRADE_REQUIRED'],
  /** Throws UPGRADE_REQUIRED when the plan grants no tokens. */
  checkCaller({ plan }: Caller) {
    if (plan.aiTokensPerDay === 0) throw new CodedError('UPGRADE_REQUIRED')
  },
} as const satisfies Partial<Endpoint>

/** Counts a refusal in the usage of the caller. It is answered whether or not this succeeds. */
export function countRefusal(caller: Caller, { code }: CodedError, { db, log }: Services): void {
  const name = shownCode('ai', code)
  recordRefusal(db, caller.user.id, keyOf(caller), name).catch(err =>
    log.warn({ err, code: name }, 'a refusal of the AI gateway could not be counted'),
  )
}
