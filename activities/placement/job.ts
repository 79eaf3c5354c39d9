import type { PlacedFiles, PlacementRequest } from './port.ts'

/** The one job of a child. */
export interface PlacementJob {
  act: 'place' | 'restore' | 'settle' | 'discard'
  request: PlacementRequest
}

/** A release whose folder only its owner, the host, can remove; `fault` says why something is left in it. */
export interface Emptied {
  release: number
  fault: string | null
}

export type PlacementReply =
  | { kind: 'done'; placed: PlacedFiles; emptied: Emptied[] }
  | { kind: 'failed'; code: string | null; message: string }

/** Names inside `releases/<n>/`, in addition to those of activities/releases/files.ts. */
export const recordNames = {
  /** Written before a first release's sources are renamed to the application's folder; its time is used. */
  first: 'first',
  /** Content of the sources when placing started. */
  plan: 'plan.json',
  /** One line before each change. */
  journal: 'journal',
  /** One line before each folder of the application that is made accessible, until its mode is restored. */
  opened: 'opened',
  /** Replaced files, named by the number of the journal's line. */
  replaced: 'replaced',
  /** The whole previous tree, where the sources replaced it at once. */
  before: 'before',
  /** The same, once it can no longer be restored. */
  dropped: 'dropped',
  /** The placed files, or the names of their sections; its presence means that the placing is complete. */
  manifest: 'manifest.json',
  /** The parts of the manifest of a large application, each named by its digest; releases share them by hard links. */
  sections: 'sections',
} as const

/** Folder inside the application's own for versions that the application wrote and a deploy replaced. */
export const replacedFolder = '.replaced'

/** Max names in each list of changed files. */
export const maxListed = 300
