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
  /** Account whose share of the host's child slots is used; defaults to the volume. */
  account?: string
}

/** The one job of a child. */
export interface OverlayJob {
  request: OverlayRequest
  limits: OverlayLimits
}

export interface OverlayTotals {
  entries: number
  bytes: number
}

export type OverlayReply =
  | ({ kind: 'done' } & OverlayTotals)
  | { kind: 'refused'; message: string }
  | { kind: 'failed'; code: string | null; message: string }

/** These files cannot be copied, and a retry is useless. */
export class OverlayRefused extends Error {
  override name = 'OverlayRefused'
}
