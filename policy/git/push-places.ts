import type { Places } from '../hosts/host-places.ts'

/**
 * How many pushes a process with so many database connections stores at once: eight of ten, the rest is for requests that somebody waits
 * for; and how many of one account: six of ten.
 */
export function pushPlaces(databasePool: number): Places {
  const share = (tenths: number) => Math.max(1, Math.floor((databasePool * tenths) / 10))
  return { atOnce: share(8), perSubject: share(6) }
}
