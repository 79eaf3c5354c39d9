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
  /** Connections of clients that an engine with this memory in MB accepts at least. */
  maxConnections(memoryMb: number): number
  /** Scheme and query of a connection URL, so that a driver connects over TLS with the URL alone. */
  url: { scheme: string; path: string; query: string }
}

/**
 * Connections of an engine beyond those of its clients. So many more are let through, for Postgres to say that there are too many; the other
 * engines serve them, and what comes then is refused by the host's rule. The platform has the others for itself, because nothing else gets
 * through to them.
 */
export const spareConnections = { refused: 10, platform: 10 } as const

/** Largest memory of a database in MB. */
export const maxMemoryMb = 32_768
