import { MiB } from '../../lib/bytes.ts'
import { diskWarnings } from './disk-levels.ts'

/** What keeps a full disk from ending a database for good. */
export const diskGuard = {
  /** Size of the file that takes room on every disk of a database, to be given back when an engine does not start without. */
  ballastBytes: 32 * MiB,
  /** What an engine needs to start on the data that it has: with less it gets the ballast. Postgres writes a segment of 16 MB. */
  startBytes: 24 * MiB,
  /** What the host takes of the ballast when its own settings no longer fit on the disk, and how often at most for one change. */
  pieceBytes: MiB,
  maxPieces: 4,
  /** Seconds between looks at a disk, and at one from this share on. */
  lookSeconds: 10,
  nearlyFull: 0.9,
  nearlyFullLookSeconds: 1,
  /** Disks that are looked at concurrently. */
  concurrency: 8,
} as const

/** A disk of a database in bytes. The ballast is no part of `usedBytes` and `totalBytes`, whether it is there or not. */
export interface DiskSpace {
  usedBytes: number
  totalBytes: number
  /** What can be written now. */
  freeBytes: number
  /** What the ballast takes; 0 = there is none. */
  ballastBytes: number
}

/** From 0 to 1; more where the room of the ballast is in use. */
export const usedShare = ({ usedBytes, totalBytes }: Pick<DiskSpace, 'usedBytes' | 'totalBytes'>): number =>
  totalBytes > 0 ? usedBytes / totalBytes : 1

export type DiskVerdict = 'end writes' | 'admit writes' | 'keep'

/** Whether writes of a database must end, or may be admitted again. In between nothing changes, so that it does not flap. */
export function diskVerdict(space: DiskSpace, isReadOnly: boolean): DiskVerdict {
  const share = usedShare(space)
  if (!isReadOnly) return share >= diskWarnings.readOnly ? 'end writes' : 'keep'
  return share < diskWarnings.writableAgain ? 'admit writes' : 'keep'
}

/**
 * Whether an engine that serves may write that many bytes next to its data for a while, so that what its clients write meanwhile is not refused for
 * lack of room: some is left for that.
 */
export const hasRoomToDump = ({ usedBytes, totalBytes }: DiskSpace, bytes: number): boolean =>
  usedBytes + bytes < diskWarnings.writableAgain * totalBytes

/** Whether a ballast may be made next to what is there: never so that it fills the disk. */
export const hasRoomForBallast = ({ freeBytes, ballastBytes }: DiskSpace): boolean =>
  ballastBytes < diskGuard.ballastBytes && freeBytes >= 2 * diskGuard.ballastBytes

/** Whether an engine is started without the ballast. */
export const needsBallastToStart = ({ freeBytes, ballastBytes }: DiskSpace): boolean =>
  ballastBytes > 0 && freeBytes < diskGuard.startBytes

/** Whether an engine that has ended, or does not start, lacks room. */
export const isOutOfRoom = ({ freeBytes }: DiskSpace): boolean => freeBytes < diskGuard.startBytes
