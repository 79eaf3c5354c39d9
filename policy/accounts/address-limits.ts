/** Addresses that keep sending unknown keys (contract 1.16). */
export const keyGuessLimit = { keys: 20, withinMs: 60_000, blockMs: 300_000 } as const

/** Max connections to one surface of an API process: in total, and of one address outside the platform. */
export const connectionCaps = { inAll: 2000, perAddress: 100 } as const
