import type { PlacedFiles, PlaceRequest } from './port.ts'

/** What the child is told, once in its life. */
export interface PlacementJob {
  act: 'place' | 'restore' | 'settle' | 'discard'
  request: PlaceRequest
}

/** `emptied` are old releases whose folders only their owner, the host, can remove. */
export type PlacementReply =
  | { kind: 'done'; placed: PlacedFiles; emptied: number[] }
  | { kind: 'failed'; code: string | null; message: string }

/** Names inside `releases/<n>/`, beside those of activities/releases/files.ts. */
export const recordNames = {
  /** Written before a first release's sources become the application's folder as a whole; its time counts. */
  first: 'first',
  /** What the sources held when placing began. */
  plan: 'plan.json',
  /** One line before each change. */
  journal: 'journal',
  /** One line before each folder of the application that is opened, until it is closed again. */
  opened: 'opened',
  /** What was there before, by number of the journal's line. */
  replaced: 'replaced',
  /** The whole tree that was there before, where the sources took its place as a whole. */
  before: 'before',
  /** The same once there is no way back to it. */
  dropped: 'dropped',
  /** What stands there since; its presence says that the placing is complete. */
  manifest: 'manifest.json',
} as const

/** Folder below the application's own in which versions lie that it wrote and a deploy replaced. */
export const keptFolder = '.replaced'

/** Of each list of changed files, at most this many names are told. */
export const listed = 300
