/** Addresses that insist on keys of no account (contract 1.16). */
export const guesserTerms = { keys: 20, withinMs: 60_000, blockMs: 300_000 } as const

/** Connections to one surface of an API process: in all, and of one address outside the platform. */
export const connectionCaps = { inAll: 2000, perAddress: 100 } as const
