import { readFileSync } from 'node:fs'

/** Fields of a process in /proc. */
export interface ProcessStat {
  /** One letter, such as `R`, `S`, `T` (stopped) or `Z` (zombie). */
  state: string
  parent: number
  /** Used CPU time, in hundredths of a second. */
  used: number
  /** Start time in ticks since boot: together with the process id it is unique. */
  startTicks: string
}

/** Null for a process that has ended, and where the system has no /proc. */
export function processStat(pid: number): ProcessStat | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ') // the name before it may contain spaces
    const [state, parent, user, system, startTicks] = [0, 1, 11, 12, 19].map(index => fields[index]!)
    return { state: state!, parent: Number(parent), used: Number(user) + Number(system), startTicks: startTicks! }
  } catch {
    return null
  }
}

/** The kernel's start time of a living process; null when it has ended or is a zombie. */
export function startTicks(pid: number): string | null {
  const stat = processStat(pid)
  return stat === null || /^[ZX]$/.test(stat.state) ? null : stat.startTicks
}
