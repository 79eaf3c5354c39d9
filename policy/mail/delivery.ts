import { signInSeconds } from '../accounts/sign-in-mails.ts'
import { downgradeTerms } from '../accounts/sign-in-terms.ts'

/** Templates with a code, which somebody waits for, and how long it is valid: these mails go first, and expired ones are not sent. */
export const codeMails = { 'sign-in': signInSeconds, 'downgrade-code': downgradeTerms.seconds } as const

/** Concurrent attempts of one process: in total, of mails without a code, and of one account with a code and without one. */
export const mailSlots = { all: 4, others: 3, codesPerAccount: 1, othersPerAccount: 2 } as const

/** How a mail is retried: waits double from the first up to the maximum, and after `maxAttempts` attempts it has failed. */
export interface MailTries {
  firstWaitSeconds: number
  maxWaitSeconds: number
  maxAttempts: number
}

/** About 3 days: 1, 2, 4 ... minutes, then every 4 hours. */
export const mailTries: MailTries = { firstWaitSeconds: 60, maxWaitSeconds: 4 * 3600, maxAttempts: 25 }

/** Timeout of one attempt; less than the first wait, after which another sender may take the mail. */
export const mailDeadlineMs = 40_000

/** How long sent and failed mails are retained. */
export const mailsRetainedDays = 30
