/** Signing in with a mailed code. How long a code works is in policy/accounts/sign-in-mails.ts. */
export const signInTerms = {
  /** Wrong codes that one sign-in takes. */
  attempts: 5,
  /** A session ends after so many seconds without a renewal. */
  sessionSeconds: 3600,
  /** It can be renewed for so many days from its beginning. */
  sessionDays: 30,
} as const

/** Browser sign-in, by which a program is granted a key (contract 3.9). */
export const authorizationTerms = {
  /** The person has to grant the key within this time. */
  seconds: 600,
  /** How often the program may ask, in seconds. */
  intervalSeconds: 10,
  /** Claims with a wrong verifier or address that one grant takes. */
  attempts: 5,
  /** A claim may be repeated, and a full account tidied up, within so many seconds. */
  graceSeconds: 60,
  /** Keys of this kind that an account may have at once. */
  keys: 5,
  keyDays: 90,
} as const

/** Confirming a step to a lower plan. */
export const downgradeTerms = {
  /** How long a mailed code works. */
  seconds: 600,
  /** Tries that one code takes, whatever the limits of the wire let through. */
  attempts: 20,
} as const
