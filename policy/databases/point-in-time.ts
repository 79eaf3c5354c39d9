/** Restores of Postgres to any second: what hosts copy of a database while it serves, and what follows from it. */
export const pointInTimeRules = {
  /** Bytes of a WAL file. */
  fileBytes: 16 * 1024 * 1024,
  /** Seconds after which an engine ends a WAL file that has changes: what a lost host can take with it. */
  maxFileSeconds: 300,
  /** WAL files that wait in a volume at most: later ones are left out, so that a stalled copy never fills the disk. */
  maxWaiting: 16,
  /**
   * Seconds for which an engine waits for the host to take one of them, once until the host has looked: longer than the interval of looks.
   * As many WAL files again may wait in the engine meanwhile.
   */
  roomSeconds: 8,
  /** Names that a host reads in the folder of WAL files at a time. */
  maxNames: 64,
  /** WAL files that a host copies concurrently; one at a time for each database, and for each account. */
  copies: 2,
  /** Interval of looks for WAL files that wait, in seconds. */
  lookSeconds: 5,
  /** The same of a volume from which WAL files were stored within `lookSeconds`: an engine that writes much ends several a second. */
  busyLookSeconds: 0.5,
  /** Age of the newest base backup at which a host makes another. */
  backupSeconds: 86_400,
  /** Shortest time between two base backups of a database. */
  minBackupSeconds: 600,
  /** The same once after files were left out, counted from then: one more in `minBackupSeconds`. */
  gapBackupSeconds: 60,
  /** Delays after a failure. */
  retry: { firstSeconds: 30, maxSeconds: 900 },
  /**
   * Bytes in the object store for each byte of a database's memory: with more, the oldest moments are given up before their time. Another
   * base backup is made after a quarter of that, so that something can be given up.
   */
  storedPerMemory: 32,
  /** What a base backup reads of an engine in a second. */
  backupMbps: 64,
  /** Max seconds of one base backup. */
  maxBackupSeconds: 4 * 3600,
  /** Seconds for the newest changes to be copied, when a restore waits for them. */
  newestSeconds: 120,
  /** WAL files that are brought ahead of an engine that recovers. */
  ahead: 4,
  /** Seconds without progress after which a recovery counts as stuck: one WAL file takes far less. */
  recoverySeconds: 300,
} as const

/** A WAL file of one engine: its timeline, and its number on it. Files of a timeline without a gap have successive numbers. */
export interface WalFile {
  timeline: number
  number: number
}

const filesOfLog = 0x1_00000000 / pointInTimeRules.fileBytes

/** Null for every other name. */
export function walFileOf(name: string): WalFile | null {
  const [, timeline, log, file] = /^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})$/.exec(name) ?? []
  if (!timeline || !log || !file) return null
  const within = Number.parseInt(file, 16)
  if (within >= filesOfLog || timeline === '00000000') return null
  return { timeline: Number.parseInt(timeline, 16), number: Number.parseInt(log, 16) * filesOfLog + within }
}

const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0')

/** The inverse of `walFileOf`. */
export const walFileName = ({ timeline, number }: WalFile): string =>
  `${hex(timeline)}${hex(Math.floor(number / filesOfLog))}${hex(number % filesOfLog)}`

/** Number of the WAL file that has a position, such as `0/3000060`. Throws an Error for other texts. */
export function walNumberAt(position: string): number {
  const [, high, low] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/.exec(position) ?? []
  if (!high || !low) throw new Error(`"${position}" is no position in the WAL.`)
  return Number.parseInt(high, 16) * filesOfLog + Math.floor(Number.parseInt(low, 16) / pointInTimeRules.fileBytes)
}

/** From when until when a volume served; `until` null = it serves now. */
export interface Serving {
  generation: number
  since: Date
  until: Date | null
}

/** A base backup with the WAL files that follow it without a gap. */
export interface RestorableBackup {
  id: string
  generation: number
  /** From its end on, its engine can be brought to any moment. */
  from: Date
  /** Until when its files have everything. */
  to: Date
  /** Nothing is missing between its last file and the engine: everything until now, or until the engine ended. */
  current: boolean
}

export interface RestorableRange {
  from: Date
  to: Date
}

/** The end of what a backup can restore, while its volume served. */
function endOf({ to, current }: RestorableBackup, until: Date): Date {
  return current ? until : new Date(Math.min(to.getTime(), until.getTime()))
}

function* coverage(backups: readonly RestorableBackup[], servings: readonly Serving[], now: Date) {
  for (const { generation, since, until } of servings)
    for (const backup of backups) {
      if (backup.generation !== generation) continue
      const from = new Date(Math.max(backup.from.getTime(), since.getTime()))
      const to = endOf(backup, until ?? now)
      // Without a file after its end, a backup is not whole.
      if (backup.current ? from <= to : from < to) yield { backup, from, to, ends: until !== null && to >= until }
    }
}

/** What can be restored, oldest first, without overlaps. */
export function restorableRanges(
  backups: readonly RestorableBackup[],
  servings: readonly Serving[],
  now: Date,
): RestorableRange[] {
  const parts = [...coverage(backups, servings, now)].sort((a, b) => a.from.getTime() - b.from.getTime())
  const ranges: RestorableRange[] = []
  for (const { from, to } of parts) {
    const last = ranges.at(-1)
    if (last && from <= last.to) last.to = new Date(Math.max(last.to.getTime(), to.getTime()))
    else ranges.push({ from, to })
  }
  return ranges
}

/** The newest backup from which the contents at `at` can be restored; undefined when there is none. */
export function backupFor(
  at: Date,
  backups: readonly RestorableBackup[],
  servings: readonly Serving[],
  now: Date,
): RestorableBackup | undefined {
  return [...coverage(backups, servings, now)]
    .filter(({ from, to, ends }) => from <= at && (ends ? at < to : at <= to))
    .sort((a, b) => b.from.getTime() - a.from.getTime() || b.backup.from.getTime() - a.backup.from.getTime())[0]?.backup
}
