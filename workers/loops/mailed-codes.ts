import type { QueuedMail } from '../../db/accounts/mails.ts'
import { mailedCode } from '../../policy/accounts/mailed-codes.ts'

/** Codes stand in no row: the sender works them out of the id of what they confirm. */
export const mailedCodes = (masterKey: string) => ({
  'downgrade-code': ({ fields }: QueuedMail) => ({
    code: mailedCode(masterKey, 'downgrade', String(fields.downgrade)),
  }),
  'sign-in': ({ fields }: QueuedMail) => ({ code: mailedCode(masterKey, 'sign-in', String(fields.signIn)) }),
})
