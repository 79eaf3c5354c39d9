import type { Owner } from '../../lib/folders/owner.ts'
import type { ArchiveFacts, SnapshotTotals } from './port.ts'

/** Descriptor at which a child finds the archive, or the pipe that it writes one to. */
export const archiveDescriptor = 4

/** The job that the child receives. It answers with a `SnapshotReply` and ends. */
export type SnapshotJob =
  | { kind: 'make'; files: string; facts: ArchiveFacts; isFilled: boolean }
  | { kind: 'verify' }
  | { kind: 'digest'; folder: string }
  | { kind: 'unpack'; folder: string; owner: Owner | null }
  | { kind: 'clear'; folder: string; owner: Owner | null }

/** Sent by a child that makes a snapshot, in this order; the parent answers `pause` with `paused` once the program is frozen. */
export interface PauseRequest {
  kind: 'pause' | 'resume'
}

/** Sent by a child each time it has found a certain number of files, folders and links. */
export interface FoundFiles {
  kind: 'found'
  files: number
}

/** Sent to a child that copies a folder while it is filled: in this order of each file, and `filled` at the end of all. */
export type FillMessage =
  | { kind: 'begins'; path: string; isPacked: boolean }
  | { kind: 'ends'; path: string }
  | { kind: 'filled' }

export type SnapshotReply = { peakBytes: number } & (
  | { kind: 'done'; snapshot: SnapshotTotals | null }
  | { kind: 'corrupt'; message: string }
  | { kind: 'refused'; message: string }
  | { kind: 'failed'; code: string | null; message: string }
)

/** Name of the last entry; a file of this name in an application is left out. */
export const manifestName = '.berth-snapshot.json'
