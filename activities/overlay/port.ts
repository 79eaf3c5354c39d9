import type { Owner } from '../../lib/folders/owner.ts'
import type { OverlayLimits } from '../../policy/apps/overlay.ts'

/** A release's sources laid over a copy of its application's files: `releases/<n>/build`, in which the install step runs. */
export interface OverlayRequest {
  /** The volume's root: files/ and releases/<n>/ lie in it. */
  volume: string
  release: number
  /** Directory below build/ that the sources are laid into; '' = the root. */
  path: string
  owner: Owner | null
  /** Whose share of the host's children it takes; the volume's own where it is left out. */
  account?: string
}

/** What the child is told, once in its life. */
export interface OverlayJob {
  request: OverlayRequest
  limits: OverlayLimits
}

export interface Overlaid {
  entries: number
  bytes: number
}

export type OverlayReply =
  | ({ kind: 'done' } & Overlaid)
  | { kind: 'refused'; message: string }
  | { kind: 'failed'; code: string | null; message: string }

/** These files cannot be copied, however often it is tried. */
export class OverlayRefused extends Error {
  override name = 'OverlayRefused'
}
