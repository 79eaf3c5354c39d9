/** Signing in with a mailed code. How long a code works is in policy/accounts/sign-in-mails.ts. */
export const signInTerms = {
  /** Max attempts of one sign-in. */
  attempts: 5,
  /** A session ends after this many seconds without a renewal. */
  sessionSeconds: 3600,
  /** It can be renewed for this many days after its start. */
  sessionDays: 30,
} as const

/** Browser sign-in, by which a program is granted a key (contract 3.9). */
export const authorizationTerms = {
  /** The person has to grant the key within this time. */
  seconds: 600,
  /** How often the program may poll, in seconds. */
  intervalSeconds: 10,
  /** Max claims of one grant with a wrong verifier or address. */
  attempts: 5,
  /** Within this time a claim may be repeated, and an account with too many keys may revoke one. */
  graceSeconds: 60,
  /** Max keys of this kind of one account. */
  keys: 5,
  keyDays: 90,
} as const

/** Confirming a step to a lower plan. */
export const downgradeTerms = {
  /** How long a mailed code is valid. */
  seconds: 600,
  /** Max attempts of one code, independent of rate limits. */
  attempts: 20,
} as const
