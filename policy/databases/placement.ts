import { acceptsMore, bestWithRoom, type HostCapacity, type Need } from '../hosts/placement.ts'

/** A host, and what it says about images of databases: `ready`, or why it cannot have that one, and in more lines the remedy. Missing = it is fetching it. */
export interface DatabaseHost extends HostCapacity {
  images: Readonly<Record<string, string>>
}

export type DatabasePlacement =
  | { ok: true; hostId: string; image: string }
  /** `reason`: why no host will ever have the image. */
  | { ok: false; code: 'CLUSTER_MAINTENANCE_TRY_LATER' | 'CLUSTER_SELECTION_FAILED'; reason?: string }

/**
 * The best of the hosts with enough room (`bestWithRoom`) that have the first of `images`, else the second, and so on. While a host with room
 * still fetches one of them, the selection has not failed: the caller may try again.
 */
export function placeDatabase(
  hosts: readonly DatabaseHost[],
  need: Need,
  images: readonly string[],
): DatabasePlacement {
  const available = hosts.filter(acceptsMore)
  const state = ({ images: states }: DatabaseHost, image: string): string | undefined => states[image]
  for (const image of images) {
    const able = available.filter(host => state(host, image) === 'ready')
    const best = bestWithRoom(able, need)
    if (best) return { ok: true, hostId: best.id, image }
  }
  const fetching = available.filter(host => images.some(image => state(host, image) === undefined))
  if (available.length === 0 || bestWithRoom(fetching, need))
    return { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' }
  const isRoomMissing = available.some(host => images.some(image => isPossible(state(host, image))))
  if (isRoomMissing) return { ok: false, code: 'CLUSTER_SELECTION_FAILED' }
  const [reason] = available.flatMap(host => images.map(image => customerWords(state(host, image))))
  return { ok: false, code: 'CLUSTER_SELECTION_FAILED', reason }
}

/** What is missing, without the words of engine and network, and what an operator does about it. */
const customerWords = (state: string | undefined): string | undefined => state?.replace(/\.?(: |\n)[\s\S]*$/, '.')

const isPossible = (state: string | undefined): boolean => state === undefined || state === 'ready'
