import type { Places } from '../hosts/host-places.ts'

/**
 * Pushes that a process stores concurrently, as a share of its database connections: eight of ten, the rest is for requests of waiting
 * people; and six of ten for one account.
 */
export function pushPlaces(databasePool: number): Places {
  const share = (tenths: number) => Math.max(1, Math.floor((databasePool * tenths) / 10))
  return { atOnce: share(8), perSubject: share(6) }
}
