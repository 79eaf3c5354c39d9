/** A host's registration is its own for this long after each renewal, by the clock of Postgres, in seconds. */
export const hostLeaseSeconds = 10

/** How often a host process renews it, in milliseconds. */
export const renewEveryMs = 1000

/** For this long after a renewal was sent a host process takes the registration for its own without asking, in milliseconds. */
export const sureForMs = (hostLeaseSeconds - 1) * 1000
