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

/** The packed cache of an application's tools, as a build has left it. */
interface ToolsToKeep {
  /** Digest of everything that it depends on. */
  key: string
  /** When it was packed, in ms since 1970. */
  at: number
  bytes: number
  /** Nothing writes to it. The cache closes it. */
  file: FileHandle
}

/** The stored cache of an application's tools, which stays where it is until it is closed. */
export interface HeldTools {
  /** A file. */
  path: string
  /** When it was packed, in ms since 1970. */
  at: number
  close(): Promise<void>
}

/** Those of these ids that exist. */
type Existing = (ids: readonly string[]) => Promise<ReadonlySet<string>>

/**
 * Results of install steps and caches of tools on the disk of one host, one archive each. Every account has its own, which no other account can
 * use. A fault of that disk counts as none.
 */
export interface InstallCache {
  /** Opens an archive, and counts as its use; null when there is none. The caller closes it, and verifies what it holds. */
  open(account: string, key: string): Promise<(StoredResult & { file: FileHandle }) | null>
  /** Counts as a use of an archive, if there is one. */
  use(account: string, key: string): Promise<void>
  /** Removes an archive, and gives up what is being packed with this key, so that it does not return; missing is success. */
  drop(account: string, key: string): Promise<void>
  /** Packs a folder in the background. What fails, is too large, or finds too little free space, is not stored. */
  keep(account: string, key: string, result: ResultToKeep): void
  /**
   * The verified cache of an application's tools; null without one. `other`: it is of another key, or of the future. `damaged`: it was
   * removed. Rejects when it cannot be read in time, and with the reason of the signal.
   */
  openTools(
    account: string,
    app: string,
    key: string,
    signal: AbortSignal,
  ): Promise<HeldTools | 'other' | 'damaged' | null>
  /** `drop` for the cache of an application's tools. */
  dropTools(account: string, app: string): Promise<void>
  /** Copies it in the background, instead of any earlier one of the application, as `keep` does. */
  keepTools(account: string, app: string, tools: ToolsToKeep): void
  /** Resolves once everything requested before is stored or given up. */
  settled(): Promise<void>
  /**
   * Removes what was not used for long, archives of accounts and applications that these do not return, and all that is no archive;
   * learns of archives that it did not know.
   */
  sweep(accountsExist: Existing, appsExist: Existing): Promise<void>
  /** What it holds now, and what it may hold, in bytes. */
  size(): { entries: number; bytes: number; maxBytes: number }
  /** Gives up what is being packed. */
  close(): Promise<void>
}
