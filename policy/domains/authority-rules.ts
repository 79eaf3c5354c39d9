/** Bounds of calls to a certificate authority, and of what it sends. */
export const authorityRules = {
  /** One request; and one of our calls, which is a few of them. */
  requestMs: 15_000,
  callMs: 60_000,
  answerBytes: 1_048_576,
  /** Certificates in a chain. */
  maxChain: 10,
  messageCharacters: 500,
  /** How soon, and how late at most, an authority is asked again about a renewal. */
  renewalAgain: { minSeconds: 3600, usualSeconds: 21_600, maxSeconds: 86_400 },
  /** Days for which certificates of the installation's own authority are valid. */
  localDays: 90,
} as const
