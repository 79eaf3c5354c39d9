import { GiB, KiB, MiB } from '../../lib/bytes.ts'
import { type Problem, problemOf } from '../../policy/apps/app-problems.ts'
import { problemOfDatabase } from '../../policy/databases/database-problems.ts'
import type { Hosted } from '../hosts/host-call.ts'
import type { HostReading } from '../hosts/host-reader.ts'

/** Figures of one application or database as numbers: CPU in percent, memory and storage in bytes, network as [in, out] bytes. */
export interface Figures {
  cpuPercent: number
  memoryBytes: number
  limitBytes: number
  storageBytes: number
  total: readonly [number, number]
  now: readonly [number, number]
  status: string
  running: boolean
  /** Milliseconds since the start, 0 while stopped. */
  uptimeMs: number
  exit?: { code: number | null; oom: boolean; at: string }
  problem?: Problem
}

/** States of an operation in progress, during which the container's own state would be misleading. */
const transientStates = ['starting', 'restarting', 'deleting']

/**
 * The figures of an application or a database, from its row and its host's answer. `reading` null: the host does not answer, and the
 * last figures are shown as unreachable, or it was forgotten, and with it what ran there.
 */
export function figuresOf(
  hosted: Hosted,
  reading: HostReading | null,
  now: readonly [number, number],
  at: number,
): Figures {
  const last = reading ?? (hosted.last_stats as HostReading | null)
  const state = reading?.state
  const running = reading ? (state?.running ?? false) : hosted.status === 'running'
  const startedAt = state?.startedAt ? Date.parse(state.startedAt) : hosted.started_at?.getTime()
  const { stats } = last ?? {}
  return {
    cpuPercent: running ? (stats?.cpuPercent ?? 0) : 0,
    memoryBytes: running ? (stats?.memoryBytes ?? 0) : 0,
    limitBytes: hosted.ram_mb * MiB,
    storageBytes: last?.storageBytes ?? 0,
    total: [stats?.networkIn ?? 0, stats?.networkOut ?? 0],
    now,
    status: reading || hosted.lost_with !== null ? statusOf(hosted, state?.status) : 'unreachable',
    running,
    uptimeMs: running && startedAt ? Math.max(0, Math.floor(at - startedAt)) : 0,
    exit:
      !running && hosted.exit_at
        ? { code: hosted.exit_code, oom: hosted.exit_oom ?? false, at: hosted.exit_at.toISOString() }
        : undefined,
    problem: 'engine' in hosted ? problemOfDatabase(hosted) : problemOf(hosted),
  }
}

/** The engine's state as a status of contract 4.9; without a container the row's status. */
function statusOf(hosted: Hosted, status: string | undefined): string {
  if (status === undefined || transientStates.includes(hosted.status)) return hosted.status
  if (status === 'removing') return 'deleting'
  if (status === 'paused') return 'running'
  return status === 'dead' ? 'exited' : status
}

/** Formatted texts (contract 4.10): `"0.50%"`, `"120.4/512MB"`, `"2.7MB"`, `"12.3KB ↑ 4.5KB ↓"`. */
export const statsView = (f: Figures) => ({
  cpu: `${f.cpuPercent.toFixed(2)}%`,
  ram: `${(f.memoryBytes / MiB).toFixed(1)}/${f.limitBytes / MiB}MB`,
  status: f.status,
  running: f.running,
  storage: sizeText(f.storageBytes),
  network: { total: flowText(f.total), now: flowText(f.now) },
  uptime: f.uptimeMs,
  exit: f.exit,
  problem: f.problem,
})

/** The same as numbers (`rawData=true`). */
export const rawStatsView = (f: Figures) => ({
  cpu: Math.round(f.cpuPercent * 100) / 100,
  ram: round(f.memoryBytes / MiB),
  status: f.status,
  running: f.running,
  storage: Math.round(f.storageBytes),
  network: { total: f.total.map(Math.round), now: f.now.map(Math.round) },
  uptime: f.uptimeMs,
  exit: f.exit,
  problem: f.problem,
})

interface NamedFigures {
  id: string
  figures: Figures
}

/** Whether an application or database runs, with its figures while it does. */
export function shareView<T>({ id, figures }: NamedFigures, view: (figures: Figures) => { cpu: T; ram: T }) {
  if (!figures.running) return { id, running: false }
  const { cpu, ram } = view(figures)
  return { id, running: true, cpu, ram }
}

/** Totals over several applications (contract 4.12). */
export function totalsView<T, N>(
  apps: readonly NamedFigures[],
  view: (figures: Figures) => { cpu: T; ram: T; network: N },
) {
  const all = apps.map(app => app.figures)
  const sum = (pick: (f: Figures) => number): number => all.reduce((total, f) => total + pick(f), 0)
  const totals: Figures = {
    cpuPercent: sum(f => f.cpuPercent),
    memoryBytes: sum(f => f.memoryBytes),
    limitBytes: sum(f => f.limitBytes),
    storageBytes: sum(f => f.storageBytes),
    total: [sum(f => f.total[0]), sum(f => f.total[1])],
    now: [sum(f => f.now[0]), sum(f => f.now[1])],
    status: '',
    running: all.some(f => f.running),
    uptimeMs: Math.max(0, ...all.map(f => f.uptimeMs)),
  }
  const { cpu, ram, network } = view(totals)
  const applications = apps.map(app => shareView(app, view))
  return { cpu, ram, network, uptime: totals.uptimeMs, running: totals.running, applications }
}

const round = (value: number): number => Math.round(value * 10) / 10

/** In KB, MB or GB with one decimal; units are powers of 1024. */
function sizeText(bytes: number): string {
  if (bytes < MiB) return `${(bytes / KiB).toFixed(1)}KB`
  return bytes < GiB ? `${(bytes / MiB).toFixed(1)}MB` : `${(bytes / GiB).toFixed(1)}GB`
}

const flowText = ([into, out]: readonly [number, number]): string => `${sizeText(into)} ↑ ${sizeText(out)} ↓`
