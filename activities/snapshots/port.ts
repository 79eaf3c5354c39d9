import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Owner } from '../../lib/folders/owner.ts'

/** What a manifest contains besides the files. None of it is secret. */
export type SnapshotFacts = AppSnapshotFacts | DatabaseSnapshotFacts

/** The same for every archive in this format. */
export type ArchiveFacts = SnapshotFacts | InstallArchiveFacts

interface AppSnapshotFacts {
  appId: string
  name: string
  /** ISO 8601. */
  createdAt: string
  variablesVersion: number
  /** The configuration from the application's row. */
  configuration: Record<string, unknown>
}

interface DatabaseSnapshotFacts {
  databaseId: string
  name: string
  /** ISO 8601. */
  createdAt: string
  engine: string
  /** Major version. */
  version: string
}

/** Of the result of an install step, which is no snapshot, but packed like one. */
interface InstallArchiveFacts {
  installKey: string
}

/** What an archive hears of a folder that is filled while it is copied. Paths are relative; each character is one byte (lib/folders/tree.ts). */
export interface Filling {
  /** From now on bytes are appended to this file, and none is changed. `isPacked`: no bytes of it would shrink. */
  begins(path: string, isPacked: boolean): void
  /** The file has all its bytes. */
  ends(path: string): void
}

export interface SnapshotRequest {
  /** The application's own folder, `files/` of its volume. */
  files: string
  facts: ArchiveFacts
  /**
   * Fills the folder of what is no application, which is copied meanwhile; resolves once nothing writes to it any more. What it rejects with
   * fails the archive. Omitted = it is filled already.
   */
  fill?: ((filling: Filling) => Promise<void>) | undefined
  /** Resolves once the program is frozen; called when everything is copied except what changed meanwhile. */
  pause(): Promise<void>
  /** Resumes the program. Called once for each `pause`, also when the snapshot fails. */
  resume(): Promise<void>
  signal: AbortSignal
}

export interface SnapshotTotals {
  files: number
  /** Bytes of the unpacked files. */
  bytes: number
  /** SHA-256 in hex over paths, kinds, modes and contents: equal for equal trees. */
  digest: string
  pausedMs: number
}

/** Zip archives of an application's files, made and read in child processes with bounded memory. */
export interface Snapshots {
  /**
   * The archive as a stream, with the manifest as its last entry. `totals` resolves after the stream's last byte was read; both fail
   * together, with `SnapshotRefused` when a retry is useless. Links are stored as links; sockets, pipes and devices are left out.
   */
  make(request: SnapshotRequest): { body: Readable; totals: Promise<SnapshotTotals> }
  /**
   * The totals of a folder to which nothing writes: equal to those of its archive. Rejects with `SnapshotRefused` when a retry is useless.
   */
  digest(folder: string, signal: AbortSignal): Promise<SnapshotTotals>
  /** Reads a whole archive back and compares every file with the manifest. Rejects with `SnapshotCorrupt`. */
  verify(file: FileHandle, signal: AbortSignal): Promise<SnapshotTotals>
  /**
   * Unpacks into an empty folder that belongs to `owner`, as that user, and compares every file with the manifest; resolves to its totals.
   * On failure leaves the folder empty and rejects with `SnapshotCorrupt`, or with `NoSpaceLeft` (lib/folders/no-space-left.ts). Synced, unless
   * `isKept` is false.
   */
  unpack(
    file: FileHandle,
    folder: string,
    owner: Owner | null,
    signal: AbortSignal,
    use?: { isKept: boolean },
  ): Promise<SnapshotTotals>
}

/** The files cannot be archived, and a retry is useless; the message says which one and why. */
export class SnapshotRefused extends Error {
  override name = 'SnapshotRefused'
}

/** The program changes too much while it is copied, which may be by chance. */
export class FreezeTooLong extends Error {
  override name = 'FreezeTooLong'
}

export class SnapshotCorrupt extends Error {
  override name = 'SnapshotCorrupt'
}
