import type { Owner } from '../../lib/folders/owner.ts'

/** What a placement changed, as paths relative to the application's folder; at most 300 of each are listed in events. */
export interface PlacedFiles {
  added: string[]
  modified: string[]
  removed: string[]
}

export interface PlaceRequest {
  /** The volume's root: files/ and releases/<n>/ lie in it. */
  volume: string
  release: number
  /** Directory below files/ that the sources are placed in; '' = the root. */
  path: string
  /**
   * True when the sources are the whole program (git): what the release before brought, this one does not, and the application did
   * not change, is removed, and what the application changed and this release did not stays as the application left it.
   * False (uploads): nothing is removed, and everything that is sent is placed.
   */
  whole: boolean
  /**
   * The sources become the folder as they are, and nothing of the old tree stays in it (a restore). Whatever has the old one
   * mounted goes on in it until it is started anew. Nothing is told of what changed.
   */
  swap?: boolean
  owner: Owner | null
  /** Whose share of the host's children it takes; the volume's own where it is left out. */
  account?: string
}

/**
 * Puts a release's sources into the folder of a running application, and takes them back. Both may be killed at any line and
 * repeated; nothing is ever written or moved outside the folder, whatever links the application has laid.
 */
export interface Placement {
  /** Renames file by file with an undo journal beside the release. Files the application wrote are never lost. */
  place(request: PlaceRequest): Promise<PlacedFiles>
  /** Puts back what `place` replaced and removes what it added. Nothing placed is success. */
  restore(request: PlaceRequest): Promise<void>
  /**
   * Once the release serves: throws away the journal, the replaced files, and releases older than this one and the one before.
   * Versions that the application itself wrote and the release replaced go to `.replaced/<release>/` in its folder.
   */
  settle(request: PlaceRequest): Promise<void>
  /** Restores, and throws away everything that the release brought and installed. For a release that will never serve. Gone already is success. */
  discard(request: PlaceRequest): Promise<void>
}

/** The application has more files than a child may hold in memory: they cannot be placed, however often it is tried. */
export class PlacementRefused extends Error {
  override name = 'PlacementRefused'
}
