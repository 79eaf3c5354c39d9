import type { Owner } from '../../lib/folders/owner.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import type { ErrorCode } from '../../policy/errors.ts'

/** The one job of a child. It answers with an `ArchiveReply` and ends. */
export type ArchiveJob = { archive: ArchiveSource } & (
  | { kind: 'inspect'; configNames: string[]; config: 'required' | 'optional' | 'ignored' }
  | { kind: 'unpack'; folder: string; owner: Owner | null; own: boolean }
  | { kind: 'clear'; folder: string; owner: Owner | null }
)

/** A descriptor that the child inherited, one that its parent holds (a spare child was started before), or none. */
export type ArchiveSource = { inherited: number } | { parents: number } | null

export type ArchiveReply = { peakBytes: number } & (
  | { kind: 'done'; entries: number; bytes: number; config: AppConfigFile | null }
  | { kind: 'refused'; code: ErrorCode; message: string }
  | { kind: 'failed'; code: string | null; message: string }
)

/** The first message of a child. `reachesParent`: whether it may open its parent's descriptors. */
export interface ArchiveReady {
  kind: 'ready'
  reachesParent: boolean
}
