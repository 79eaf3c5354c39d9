import { KiB } from '../../lib/bytes.ts'

/** Limits of one application's outbound traffic, and of what comes in, on every plan: all applications share the host's connection table and its reputation. */
export const networkLimits = {
  /** Max open connections from one container; a small host's table has 65,536 entries. */
  openConnections: 2000,
  /** New connections per second, after a first burst. */
  newPerSecond: 200,
  newAtOnce: 1000,
  /**
   * Packets per second to the engine's name server, after a first burst: two queries for each new connection. The engine bears its cost,
   * inside the container's network, where the rules of the host do not apply.
   */
  namePacketsPerSecond: 400,
  namePacketsAtOnce: 2000,
  /** Below this memory an application has a proportional share of both: many small applications get as much as a few large ones. */
  nameShareMb: 1024,
  /** Bytes per second over TCP, after a first burst: one packet may contain thousands of queries. */
  nameStreamBytesPerSecond: 8 * KiB,
  nameStreamBytesAtOnce: 64 * KiB,
  /** Of one address outside, over all databases of a host: several pools of the largest size, opened together. */
  inward: { openConnections: 1000, newPerSecond: 50, newAtOnce: 500 },
  /** Server-to-server mail, as used for spam; submission (465, 587) stays open. */
  refusedPorts: [25],
} as const

/** Packets that an application with this memory may send to the engine's name server: per second, and in a first burst. */
export function namePacketsFor(memoryMb: number): { perSecond: number; atOnce: number } {
  const { namePacketsPerSecond, namePacketsAtOnce, nameShareMb } = networkLimits
  const share = Math.min(1, memoryMb / nameShareMb)
  return { perSecond: Math.ceil(namePacketsPerSecond * share), atOnce: Math.ceil(namePacketsAtOnce * share) }
}
