/** A container host as placement sees it. Memory and disk in MB. */
export interface HostCapacity {
  id: string
  draining: boolean
  reachable: boolean
  memoryMb: number
  diskMb: number
  reservedMemoryMb: number
  reservedDiskMb: number
  /** How many resources of the owner it has that the new one is used with; missing = none. */
  related?: number
}

/** What a host promises of its disk (docs/decisions/quota-volumes.md). */
export const diskPromise = {
  /** Part of the disk, and max MB of it, that stay for all but volumes: images, builds, dumps and logs, and where it is the same disk, Postgres and objects. */
  reserveShare: 0.1,
  maxReserveMb: 20_480,
  /** The figure is recorded again when it differs by this part of it, and by this many MB, so that what lasts a moment does not move it. */
  stepShare: 0.02,
  minStepMb: 64,
} as const

/** The disk of a host in MB. */
export interface DiskUse {
  wholeMb: number
  freeMb: number
  /** What the files of volumes have allocated: less than their sizes, which are what is promised. */
  volumesMb: number
  /** What the caches of builds may use, and what they do. */
  cachesMb: number
  cachedMb: number
}

/** MB of a disk for volumes, those that exist included: what anything else uses is not there to be promised. */
export function promisedDiskMb({ wholeMb, freeMb, volumesMb, cachesMb, cachedMb }: DiskUse): number {
  const reserveMb = Math.min(diskPromise.maxReserveMb, wholeMb * diskPromise.reserveShare)
  const ownMb = freeMb + volumesMb + Math.min(cachedMb, cachesMb)
  return Math.max(0, Math.floor(Math.min(ownMb, wholeMb) - cachesMb - reserveMb))
}

/** Whether a promise has changed by so much that placement should know. */
export const isOtherPromise = (beforeMb: number, nowMb: number): boolean =>
  Math.abs(nowMb - beforeMb) >= Math.max(diskPromise.minStepMb, beforeMb * diskPromise.stepShare)

export interface Need {
  memoryMb: number
  diskMb: number
}

export type Placement =
  | { ok: true; hostId: string }
  | { ok: false; code: 'CLUSTER_MAINTENANCE_TRY_LATER' | 'CLUSTER_SELECTION_FAILED' }

/**
 * The best host among those with enough room (`bestWithRoom`). Draining and unreachable hosts are never chosen; when there are only such
 * hosts the platform is in maintenance, when none of the others has room the selection has failed.
 */
export function placeApp(hosts: readonly HostCapacity[], need: Need): Placement {
  const available = hosts.filter(acceptsMore)
  if (available.length === 0) return { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' }
  const best = bestWithRoom(available, need)
  return best ? { ok: true, hostId: best.id } : { ok: false, code: 'CLUSTER_SELECTION_FAILED' }
}

/** Whether anything new may be placed on a host. */
export const acceptsMore = ({ reachable, draining }: HostCapacity): boolean => reachable && !draining

/**
 * Of the hosts that have enough room the one with the most related resources, as applications reach databases of their own host only where
 * hosts have private addresses; among equals the one with the most free memory. Undefined when none has room.
 */
export function bestWithRoom<Host extends HostCapacity>(hosts: readonly Host[], need: Need): Host | undefined {
  return hosts
    .filter(host => hasRoom(host, need))
    .sort((a, b) => related(b) - related(a) || freeMemory(b) - freeMemory(a) || a.id.localeCompare(b.id))[0]
}

const related = ({ related: count = 0 }: HostCapacity): number => count

const freeMemory = (host: HostCapacity): number => host.memoryMb - host.reservedMemoryMb

/** Whether a host has this much left. One whose disk is promised already, or more than that, has room for what needs none. */
export function hasRoom(host: HostCapacity, need: Need): boolean {
  const hasDisk = need.diskMb === 0 || host.diskMb - host.reservedDiskMb >= need.diskMb
  return hasDisk && freeMemory(host) >= need.memoryMb
}
