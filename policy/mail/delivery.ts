/** How a mail is tried: waits double from the first to the longest, and after so many tries it has failed. */
export interface MailTries {
  firstWaitSeconds: number
  maxWaitSeconds: number
  maxAttempts: number
}

/** About 3 days: 1, 2, 4 ... minutes, then every 4 hours. */
export const mailTries: MailTries = { firstWaitSeconds: 60, maxWaitSeconds: 4 * 3600, maxAttempts: 25 }

/** One try ends within this; less than the first wait, after which another may take the mail. */
export const mailDeadlineMs = 40_000

/** What was sent or has failed is kept so long. */
export const mailsKeptDays = 30
