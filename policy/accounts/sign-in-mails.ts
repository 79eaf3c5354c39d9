/** How long a mailed code is good for, in seconds, and the window in which its mails are counted. */
export const signInSeconds = 600

/** Mails to one account within `signInSeconds`. */
export const signInMails = {
  /** Any network may have so many sent; more is left to others. */
  ofOneNetwork: 5,
  /** So many hold a code of their own. */
  fresh: 5,
  /** After those the newest open code is sent again, up to so many mails in all. */
  most: 15,
} as const

/** What an account was sent lately. */
export interface SentLately {
  all: number
  /** Of these, the ones that the asking network has asked for. */
  byNetwork: number
  /** The newest sign-in whose own code was mailed and is unused. */
  open: string | null
}

export interface SignInMail {
  /** The sign-in whose code counts; null: a code of its own. */
  codeOf: string | null
  sent: boolean
}

/**
 * Whether a sign-in is mailed, and with which code. A stranger who asks for mails in somebody's name must not keep them from
 * signing in: past the caps the code that lies in the mailbox already serves the owner's own request as well.
 */
export function signInMail({ all, byNetwork, open }: SentLately): SignInMail {
  const sent = byNetwork < signInMails.ofOneNetwork && all < signInMails.most
  const isFresh = open === null || (sent && all < signInMails.fresh)
  return { codeOf: isFresh ? null : open, sent }
}
