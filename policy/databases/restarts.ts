import { dayMs } from '../../lib/time.ts'

/** Restarts of an engine that ends although it should run. */
export const restartRules = {
  /** Seconds from each crash in a row to the restart after it; one crash more, and the engine stays down. */
  delaysSeconds: [1, 5, 15, 60],
  /** An engine that ran for this long has recovered: its next crash is the first one again. */
  steadySeconds: 600,
} as const

/**
 * Delay before another attempt to start an engine that its host could not start, in seconds; it doubles. Capped lower than that of programs: a
 * database that is down must not wait long after the cause has ended.
 */
export const returnDelay = { firstSeconds: 5, maxSeconds: 300 } as const

/** How long the last crash of a database is shown after its restart. */
const crashShownMs = dayMs

interface Crashed {
  crash_code: number | null
  crash_oom: boolean | null
  crash_at: Date | null
  crash_times: readonly Date[]
}

/** The last crash of a database that has been started again since, and how many there were; null when there was none within a day. */
export function recentCrash(
  { crash_code: code, crash_oom: oom, crash_at: at, crash_times: times }: Crashed,
  now: Date,
): { end: { code: number | null; oom: boolean; at: Date }; times: number } | null {
  const isRecent = (time: Date) => now.getTime() - time.getTime() < crashShownMs
  return at && isRecent(at) ? { end: { code, oom: oom ?? false, at }, times: times.filter(isRecent).length } : null
}

/** Number of crashes in a row after which an engine stays down until somebody starts it. */
export const maxCrashes = restartRules.delaysSeconds.length + 1

export interface RestartPlan {
  /** Crashes in a row. */
  crashes: number
  /** When the engine is started again; null = it stays down. */
  restartAt: Date | null
}

/** What follows a crash after it has served for `ranMs` milliseconds, with `crashes` before it. */
export function planRestart(crashes: number, ranMs: number, now: Date): RestartPlan {
  const inARow = (ranMs >= restartRules.steadySeconds * 1000 ? 0 : crashes) + 1
  const delay = restartRules.delaysSeconds[inARow - 1]
  return { crashes: inARow, restartAt: delay === undefined ? null : new Date(now.getTime() + delay * 1000) }
}
