import type { LiveEvent, LiveReading } from '../../activities/live/live-feed.ts'
import type { AppRow } from '../../db/apps/apps.ts'
import { MiB } from '../../lib/bytes.ts'
import { figuresOf } from './stats.ts'

/** The figures of one second (contract 4.17): memory in whole MB, counters in whole bytes, `new` in bytes per second. */
export function statusView(app: AppRow, { state, stats }: LiveReading, rate: readonly [number, number], at: number) {
  const figures = figuresOf(app, { state, stats, storageBytes: 0 }, rate, at)
  const limitBytes = stats?.memoryLimitBytes || figures.limitBytes
  return {
    cpu: Math.round(figures.cpuPercent * 100) / 100,
    // A running program never uses 0 MB.
    ram: [Math.ceil(figures.memoryBytes / MiB), Math.round(limitBytes / MiB)],
    netIO: { i: whole(figures.total[0]), o: whole(figures.total[1]), new: { i: whole(rate[0]), o: whole(rate[1]) } },
    bIO: { i: whole(stats?.blockRead ?? 0), o: whole(stats?.blockWrite ?? 0) },
  }
}

/** The first status of a stream also contains what does not change from second to second. */
export function firstStatusView(app: AppRow, reading: LiveReading, rate: readonly [number, number], at: number) {
  const { cpu, ram, netIO, bIO } = statusView(app, reading, rate, at)
  const { status, uptimeMs } = figuresOf(app, { ...reading, storageBytes: 0 }, rate, at)
  return { cpu, cpuLimit: app.cpu, ram, status, netIO, bIO, uptime: uptimeMs }
}

/** A line of output, marked with its stream. */
export const lineView = ({ stream, line }: Extract<LiveEvent, { line: string }>): string =>
  `${stream === 'stderr' ? '\u0002' : '\u0001'}${line}`

const whole = (value: number): number => Math.max(0, Math.round(value))
