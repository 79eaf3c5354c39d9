import type { Owner } from '../../lib/folders/owner.ts'

/** What a placement changed, as paths relative to the application's folder, at most 300 of each. */
export interface PlacedFiles {
  added: string[]
  modified: string[]
  removed: string[]
}

export interface PlacementRequest {
  /** The volume's root: files/ and releases/<n>/ lie in it. */
  volume: string
  release: number
  /** Directory below files/ that the sources are placed in; '' = the root. */
  path: string
  /**
   * True when the sources are the whole program (git): removes files of the previous release that this one lacks, unless the
   * application has changed them; files that only the application has changed stay as they are.
   * False (uploads): nothing is removed, and every uploaded file is placed.
   */
  whole: boolean
  /**
   * Replaces the whole folder with the sources; nothing of the old tree stays in it (a restore). A container that has the old one
   * mounted keeps using it until it is restarted. The list of changes is empty.
   */
  swap?: boolean
  owner: Owner | null
}

/**
 * Puts a release's sources into the folder of a running application, and undoes that. Both may be killed at any point and
 * repeated; nothing is ever written or moved outside the folder, whatever links the application has created.
 */
export interface Placement {
  /**
   * Does work that changes files in one of the slots of this host for children, of which an account has a share. Rejects with the signal's reason
   * while it waits. Everything below needs one, apart from placing what is renamed as a whole: a creation. Wait for it before the lock of the
   * application: its start and stop must not wait for other applications.
   */
  inSlot<T>(account: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  /** Renames file by file, with an undo journal next to the release. Files that the application wrote are never lost. */
  place(request: PlacementRequest): Promise<PlacedFiles>
  /** Puts back what `place` replaced and removes what it added. Nothing placed is success. */
  restore(request: PlacementRequest): Promise<void>
  /**
   * Once the release serves: removes the journal, the replaced files, and releases older than this one and the previous one.
   * Versions that the application itself wrote and the release replaced are moved to `.replaced/<release>/` in its folder.
   */
  settle(request: PlacementRequest): Promise<void>
  /** Restores, and removes everything that the release brought and installed. For a release that will never serve. Removed already is success. */
  discard(request: PlacementRequest): Promise<void>
}

/** The application has more files than fit into a child's memory: they cannot be placed, and a retry is useless. */
export class PlacementRefused extends Error {
  override name = 'PlacementRefused'
}
