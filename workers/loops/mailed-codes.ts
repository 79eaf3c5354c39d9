import type { QueuedMail } from '../../db/accounts/mails.ts'
import { mailedCode } from '../../policy/accounts/mailed-codes.ts'

/** Codes are not stored: the sender derives them from the id of what they confirm. */
export const mailedCodes = (masterKey: string) => ({
  'downgrade-code': ({ fields }: QueuedMail) => ({
    code: mailedCode(masterKey, 'downgrade', String(fields.downgrade)),
  }),
  'sign-in': ({ fields }: QueuedMail) => ({ code: mailedCode(masterKey, 'sign-in', String(fields.signIn)) }),
})
