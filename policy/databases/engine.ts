/** The type of a database on the wire, and in its row. */
export const engineNames = ['mongo', 'mysql', 'redis', 'postgres'] as const
export type EngineName = (typeof engineNames)[number]

/** What an engine needs and offers, independent of how it is configured. */
export interface Engine {
  /** Major versions on offer, newest first. */
  versions: readonly string[]
  /** Name of the image on a host. */
  image(version: string): string
  /** The published image of the same name; null for one that only a recipe makes. */
  official(version: string): string | null
  /** All its data are in memory: it cannot have less than they take. */
  inMemory: boolean
  /** Smallest memory in MB. */
  minMemoryMb: number
  /** The signal that ends it cleanly, and how long that may take. */
  stop: { signal: 'SIGINT' | 'SIGTERM'; graceSeconds: number }
  /** Connections that programs of its owner get with this memory in MB; those from elsewhere are in addition. */
  ownerConnections(memoryMb: number): number
  /** Scheme and query of a connection URL, so that a driver connects over TLS with the URL alone. */
  url: { scheme: string; path: string; query: string }
}

/** Of the connections from elsewhere one address has at most this share: a client with one address cannot keep all others out. */
export const shareOfAddress = 0.5

/**
 * Connections beyond those of clients, for the machine itself: at the port, as to prove a password, and at the engine's socket. At the port
 * they are its own because clients elsewhere get no more than `elsewhere` (engines.ts).
 */
export const spareConnections = { machine: 10, socket: 10 } as const

/** Largest memory of a database in MB. */
export const maxMemoryMb = 32_768
