import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { KiB } from '../../lib/bytes.ts'

const prefix = 'berth-archive-'

/** How often a child's resident size is checked where no cgroup limits it. */
const watchMs = 20

/**
 * Resident bytes of a process, now or at its peak; 0 when it has ended. Not from `resourceUsage`: its maximum is
 * inherited from the parent.
 */
export function residentBytes(pid: number, when: 'now' | 'peak' = 'now'): number {
  const line = when === 'now' ? /VmRSS:\s+(\d+)/ : /VmHWM:\s+(\d+)/
  try {
    return Number(line.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * KiB
  } catch {
    return 0
  }
}

/** Calls back once when the process exceeds `bytes`; the returned function ends the watch. */
export function watchResident(pid: number, bytes: number, onOver: () => void): () => void {
  const timer = setInterval(() => {
    if (residentBytes(pid) <= bytes) return
    clearInterval(timer)
    onOver()
  }, watchMs)
  return () => clearInterval(timer)
}

/** A memory group of one process, or null where this process may not create one (contract 5.18). */
export class MemoryGroup {
  readonly #folder: string
  readonly #limitFile: string

  private constructor(folder: string, limitFile: string) {
    this.#folder = folder
    this.#limitFile = limitFile
  }

  static of(pid: number): MemoryGroup | null {
    for (const { base, limitFile } of parentGroups()) {
      const folder = `${base}/${prefix}${pid}`
      try {
        mkdirSync(folder)
        if (!existsSync(`${folder}/${limitFile}`)) throw new Error('no memory controller')
        writeFileSync(`${folder}/cgroup.procs`, String(pid))
        return new MemoryGroup(folder, limitFile)
      } catch {
        removeGroup(folder)
      }
    }
    return null
  }

  limit(bytes: number): void {
    writeFileSync(`${this.#folder}/${this.#limitFile}`, String(bytes))
  }

  /** After the process ended. */
  remove(): void {
    removeGroup(this.#folder)
  }
}

/** Removes the empty groups of earlier processes that were killed; a group with a process in it cannot be removed. */
export function removeAbandonedGroups(): void {
  for (const { base } of parentGroups())
    for (const name of existsSync(base) ? readdirSync(base) : [])
      if (name.startsWith(prefix)) removeGroup(`${base}/${name}`)
}

/** Possible parents of our groups: the group of this process, in the layout of version 1 or 2. */
function parentGroups(): { base: string; limitFile: string }[] {
  const lines = existsSync('/proc/self/cgroup') ? readFileSync('/proc/self/cgroup', 'latin1').split('\n') : []
  return lines.flatMap(line => {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (controllers?.split(',').includes('memory'))
      return [{ base: `/sys/fs/cgroup/memory${path}`, limitFile: 'memory.limit_in_bytes' }]
    return controllers === '' ? [{ base: `/sys/fs/cgroup${path}`, limitFile: 'memory.max' }] : []
  })
}

function removeGroup(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // Missing, or still in use; the next start tries again.
  }
}
