import type { WalFile } from '../../../policy/databases/point-in-time.ts'
import type { DatabaseTraits, LocalEngine } from '../port.ts'

/** Where a recovering engine finds the WAL files that it requests, and the base backup: in its container, and below `dump` on the host. */
export const recoveryPlace = '/dump'

/** Names below `recoveryPlace`. */
export const recoveryNames = {
  backup: 'base.tar.gz',
  wal: 'wal',
  /** Has the name of the WAL file that the engine waits for. */
  wanted: 'wanted',
  /** Ends the name of a marker: this WAL file does not exist. */
  missing: '.missing',
} as const

/** The folder of finished WAL files, below the data folder; and what the engine leaves there. */
export const archiveNames = {
  folder: 'wal',
  /** WAL files were left out, because too many waited. */
  gap: 'gap',
  /** A file that is being written. */
  draft: 'draft',
  /** Folders, one in the other, in which the engine notes its WAL files; the end of those that it has yet to archive. */
  states: ['pg', 'pg_wal', 'archive_status'],
  waits: '.ready',
  /** The file whose last line says what the engine does now. */
  engineState: ['pg', 'postmaster.pid'],
} as const

/** The position of a base backup in the WAL. */
export interface BackupStart {
  timeline: number
  /** Number of the first WAL file that it needs. */
  firstFile: number
}

/** What an engine can do that is restored to any second. One adapter each, next to that of the engine. */
export interface PointInTimeEngine {
  /**
   * Reads a base backup as a tar archive, piece by piece; `take` may keep the engine waiting. It is complete once this resolves, and the WAL
   * files that it needs are in the archive folder.
   */
  backup(engine: LocalEngine, take: (piece: Buffer) => Promise<void> | undefined): Promise<BackupStart>
  /** The engine's clock. */
  now(engine: LocalEngine): Promise<Date>
  /**
   * Writes a commit and ends the WAL file, so that a recovery to any earlier moment finds its end in the archive. Resolves to that WAL file.
   */
  endFile(engine: LocalEngine): Promise<WalFile>
  /** Whether the engine has left recovery on another timeline than this one. */
  isRecovered(engine: LocalEngine, timeline: number): Promise<boolean>
  /** Command that makes the data folder from the base backup in `recoveryPlace`. Pure. */
  unpack(): string[]
  /** The command that serves once it has recovered to this moment, or to the end of the WAL for null. Pure. */
  recover(traits: DatabaseTraits, to: Date | null): string[]
}
