import { bandwidthBurst } from '../../policy/apps/sizes.ts'

/** What keeps the containers of applications from taking the whole line of their machine. */
export interface Bandwidth {
  /**
   * Gives a running container its rate each way. May be repeated, and has to be after every start: the link is a new one. Rejects when
   * the kernel refuses, or the process is none of this machine, or not this container's any more.
   */
  limit(container: LinkedContainer): Promise<void>
}

export interface LinkedContainer {
  id: string
  /** Its first process. */
  pid: number
  /** Each way, in Mbit/s. */
  mbit: number
}

export interface OpenedBandwidth {
  bandwidth: Bandwidth | null
  /** Why there is none, for the summary of `berth up`; null when there is one. */
  notice: string | null
}

/** How operators read it. */
export const bandwidthState = ({ bandwidth, notice }: OpenedBandwidth): string => (bandwidth ? 'on' : `off: ${notice}`)

/**
 * The arguments of `tc` that give what leaves by a device so many Mbit/s. A token bucket needs no classes, filters or further devices,
 * and holds a sender up instead of losing its packets.
 */
export function tokenBucket(device: string, mbit: number): string[] {
  const burst = String(bandwidthBurst(mbit))
  return ['qdisc', 'replace', 'dev', device, 'root', 'tbf', 'rate', `${mbit}mbit`, 'burst', burst, 'latency', '100ms']
}
