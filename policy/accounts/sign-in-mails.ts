/** How long a mailed code is valid, in seconds, and the window in which mails are counted. */
export const signInSeconds = 600

/** Mails to one account within `signInSeconds`. */
export const signInMails = {
  /** Max mails that one network can cause, so that others can still cause some. */
  ofOneNetwork: 5,
  /** Max mails with a new code. */
  fresh: 5,
  /** Max mails in total; those beyond `fresh` repeat the newest open code. */
  max: 15,
} as const

/** Mails to an account within `signInSeconds`. */
export interface SentLately {
  all: number
  /** Those caused by the network of this request. */
  byNetwork: number
  /** The newest sign-in with its own mailed, unused code. */
  open: string | null
}

export interface SignInMail {
  /** The sign-in whose code is repeated; null = a new code. */
  codeOf: string | null
  sent: boolean
}

/**
 * Whether a sign-in is mailed, and with which code. A stranger who requests mails for an address must not keep its owner from signing
 * in: past the caps the code that is already in the mailbox also works for the owner's own request.
 */
export function signInMail({ all, byNetwork, open }: SentLately): SignInMail {
  const sent = byNetwork < signInMails.ofOneNetwork && all < signInMails.max
  const isFresh = open === null || (sent && all < signInMails.fresh)
  return { codeOf: isFresh ? null : open, sent }
}
