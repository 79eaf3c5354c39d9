import { GiB, KiB, MiB } from '../../lib/bytes.ts'

/** Limits of an archive (contract 5.16): bytes and counts. */
export interface ArchiveRules {
  outputBytes: number
  /** Max files and folders; dropped ones do not count. */
  entries: number
  /** Max output per compressed byte, checked after `ratioAfterBytes` of output. */
  ratio: number
  ratioAfterBytes: number
  /** Symbolic links: refused, or accepted when they cannot lead outside. */
  links: 'refused' | 'inside'
}

/** For uploads of users. */
export const uploadRules: ArchiveRules = {
  outputBytes: GiB,
  entries: 20_000,
  ratio: 100,
  ratioAfterBytes: 10 * MiB,
  links: 'refused',
}

/** For archives that Berth created, such as snapshots: the application's disk is their limit. */
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

/** At the root only: further down, programs use `target` as a name of their own. */
const droppedAtRoot = new Set(['target'])

/** As `isDropped`, for a path with `.` and empty parts: source text to put at the start of a regular expression. */
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

/** Max bytes that are read of the configuration file. */
export const maxConfigBytes = 64 * KiB
/** What is said of a larger one. */
export const configTooLarge = `The configuration file must be at most ${maxConfigBytes / KiB} KB.`

/** Limits of child processes that read archives. */
export const archiveSlots = {
  /** Concurrent ones; up to one of each account, and accounts take turns. */
  atOnce: 2,
  perSubject: 1,
  /** How long an upload waits for a slot before it is refused with a retry time, in milliseconds. */
  waitMs: 15_000,
  inspectSeconds: 60,
  unpackSeconds: 600,
  /** Memory of a child process above its idle size. */
  memoryMb: 96,
} as const
