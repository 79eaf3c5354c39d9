import { bandwidthBurst } from '../../policy/apps/sizes.ts'

/** Limits the bandwidth of applications' containers, so that none takes all of its machine's. */
export interface Bandwidth {
  /**
   * Sets the rate of a running container each way. May be repeated, and must be after every start, because the link is new. Rejects when
   * the kernel refuses, or when the process is not on this machine or no longer this container's.
   */
  limit(container: LinkedContainer): Promise<void>
}

export interface LinkedContainer {
  id: string
  /** Its first process. */
  pid: number
  /** Mbit/s each way. */
  mbit: number
}

export interface OpenedBandwidth {
  bandwidth: Bandwidth | null
  /** Why there is none, for the summary of `berth up`; null when there is one. */
  notice: string | null
}

/** The state, as operators see it. */
export const bandwidthState = ({ bandwidth, notice }: OpenedBandwidth): string => (bandwidth ? 'on' : `off: ${notice}`)

/**
 * Arguments of `tc` that limit the egress of a device to `mbit`. A token bucket needs no classes, filters or further devices,
 * and delays a sender instead of dropping its packets.
 */
export function tokenBucket(device: string, mbit: number): string[] {
  const burst = String(bandwidthBurst(mbit))
  return ['qdisc', 'replace', 'dev', device, 'root', 'tbf', 'rate', `${mbit}mbit`, 'burst', burst, 'latency', '100ms']
}
