import type { FileHandle } from 'node:fs/promises'

/** The result of an install step, in an installed folder or an archive of it. */
interface StoredResult {
  /** Digest of its files (activities/snapshots/port.ts). */
  digest: string
  /** When it was installed, in ms since 1970. */
  at: number
}

export interface ResultToKeep extends StoredResult {
  /** The installed folder; nothing writes to it. */
  folder: string
  /** Size of its files. */
  bytes: number
}

/** Results of install steps on the disk of one host, one archive each. Every account has its own, which no other account can use. */
export interface InstallCache {
  /** Opens an archive, and counts as its use; null when there is none. The caller closes it, and verifies what it holds. */
  open(account: string, key: string): Promise<(StoredResult & { file: FileHandle }) | null>
  /** Counts as a use of an archive, if there is one. */
  use(account: string, key: string): Promise<void>
  /** Removes a damaged archive; missing is success. */
  drop(account: string, key: string): Promise<void>
  /** Packs a folder in the background. What fails, is too large, or finds too little free space, is not stored. */
  keep(account: string, key: string, result: ResultToKeep): void
  /** Resolves once everything requested before is stored or given up. */
  settled(): Promise<void>
  /** Removes what was not used for long, archives of accounts that `exist` does not return, and all that is no archive; learns of archives that it did not know. */
  sweep(exist: (accounts: readonly string[]) => Promise<ReadonlySet<string>>): Promise<void>
  /** What it holds now, and what it may hold, in bytes. */
  size(): { entries: number; bytes: number; maxBytes: number }
  /** Gives up what is being packed. */
  close(): Promise<void>
}
