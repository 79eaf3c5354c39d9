/** How long a host process holds its name after each renewal, by the clock of Postgres, in seconds. */
export const hostLeaseSeconds = 10

/** How often a host process renews it, in milliseconds. */
export const renewEveryMs = 1000

/** For this long after it sent a renewal, a host process relies on the lease without a query, in milliseconds. */
export const sureForMs = (hostLeaseSeconds - 1) * 1000
