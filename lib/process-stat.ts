import { readFileSync } from 'node:fs'

/** What the kernel tells of a process in /proc. */
export interface ProcessStat {
  /** One letter, such as `R`, `S`, `T` (stopped) or `Z` (only waits to be reaped). */
  state: string
  parent: number
  /** Processor time that it has used, in hundredths of a second. */
  used: number
  /** When it began, in ticks since boot: with its number it names a process once. */
  startTicks: string
}

/** Null for a process that is gone, and where the system shows none. */
export function processStat(pid: number): ProcessStat | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ') // the name before it may hold spaces
    const [state, parent, user, system, startTicks] = [0, 1, 11, 12, 19].map(index => fields[index]!)
    return { state: state!, parent: Number(parent), used: Number(user) + Number(system), startTicks: startTicks! }
  } catch {
    return null
  }
}

/** The kernel's start time of a living process; null when it is gone or only waits to be reaped. */
export function startTicks(pid: number): string | null {
  const stat = processStat(pid)
  return stat === null || /^[ZX]$/.test(stat.state) ? null : stat.startTicks
}
