import { KiB } from '../../lib/bytes.ts'

/** What one application may ask of the networks beyond its host, whatever its plan: the host's table of connections and its good name are everybody's. */
export const networkLimits = {
  /** Connections out of one container that may be open at once; a small host's table holds 65,536 of all. */
  openConnections: 2000,
  /** New ones a second, once a first burst is spent. */
  newPerSecond: 200,
  newAtOnce: 1000,
  /**
   * Packets a second to the engine's name server, once a first burst is spent: two questions for each new connection. It answers at
   * the engine's own cost, inside the container's network, where the rules of the host do not see it.
   */
  namePacketsPerSecond: 400,
  namePacketsAtOnce: 2000,
  /** Below this memory an application has a smaller share of both: an account has as much in many small ones as in few large ones. */
  nameShareMb: 1024,
  /** Bytes a second over TCP, once a first burst is spent: one packet there may hold thousands of questions. */
  nameStreamBytesPerSecond: 8 * KiB,
  nameStreamBytesAtOnce: 64 * KiB,
  /** Handing mail from server to server is what spam is made of; submission (465, 587) stays open. */
  refusedPorts: [25],
} as const

/** What an application with this memory may send to the engine's name server: packets a second, and in a first burst. */
export function namePacketsFor(memoryMb: number): { perSecond: number; atOnce: number } {
  const { namePacketsPerSecond, namePacketsAtOnce, nameShareMb } = networkLimits
  const share = Math.min(1, memoryMb / nameShareMb)
  return { perSecond: Math.ceil(namePacketsPerSecond * share), atOnce: Math.ceil(namePacketsAtOnce * share) }
}
