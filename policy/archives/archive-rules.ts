import { GiB, KiB, MiB } from '../../lib/bytes.ts'

/** What an archive may cost (contract 5.16). Bytes, counts. */
export interface ArchiveRules {
  outputBytes: number
  /** Files and folders that are kept; dropped ones do not count. */
  entries: number
  /** Output per compressed byte, judged once `ratioAfterBytes` came out. */
  ratio: number
  ratioAfterBytes: number
  /** Symbolic links: refused, or kept when they cannot lead outside. */
  links: 'refused' | 'inside'
}

/** For what users send. */
export const uploadRules: ArchiveRules = {
  outputBytes: GiB,
  entries: 20_000,
  ratio: 100,
  ratioAfterBytes: 10 * MiB,
  links: 'refused',
}

/** For archives that Berth itself made, such as snapshots: the application's disk is their limit. */
export const ownRules: ArchiveRules = {
  outputBytes: Number.MAX_SAFE_INTEGER,
  entries: Number.MAX_SAFE_INTEGER,
  ratio: Number.POSITIVE_INFINITY,
  ratioAfterBytes: Number.MAX_SAFE_INTEGER,
  links: 'inside',
}

/** Names that are dropped while unpacking (contract 5.15): anywhere in a path, because tools nest them. */
const droppedAnywhere = new Set([
  'node_modules',
  '.git',
  '.next',
  '.npm',
  '.npmrc',
  '.cache',
  '.config',
  '.vscode',
  '.venv',
  '__pycache__',
  '.dockerenv',
])

/** At the root only: further down `target` is a word of people's own programs. */
const droppedAtRoot = new Set(['target'])

/** As `isDropped`, of a path that may have `.` and empty parts: a source to stand before what a regular expression takes. */
export const notDropped = [
  String.raw`(?!(?:\.?/)*(?:${alternatives(droppedAtRoot)})(?:/|$))`,
  String.raw`(?!(?:[\s\S]*/)?(?:${alternatives(droppedAnywhere)})(?:/|$))`,
].join('')

function alternatives(names: ReadonlySet<string>): string {
  return [...names].map(name => name.replaceAll('.', String.raw`\.`)).join('|')
}

/** Whether a path is left out when an upload is unpacked. */
export function isDropped(path: string): boolean {
  const segments = path.split('/')
  return droppedAtRoot.has(segments[0]!) || segments.some(segment => droppedAnywhere.has(segment))
}

/** The file that says how the application is configured is short; more is not read. */
export const maxConfigBytes = 64 * KiB

/** Children that read archives. */
export const archivePlaces = {
  /** At the same time; one of each account, and accounts in turn. */
  atOnce: 2,
  perSubject: 1,
  /** An upload waits so long for its turn before it is told to come again, in milliseconds. */
  waitMs: 15_000,
  inspectSeconds: 60,
  unpackSeconds: 600,
  /** Memory of a child beyond its size when idle. */
  memoryMb: 96,
} as const
