import { readdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
const family = 'berth'

/**
 * The control group, by the engine's name for it, that holds all containers of one share; undefined where the engine makes none. Groups
 * beside each other weigh the same, whatever number of containers is in them.
 */
export function shareGroup(driver: string, share: string): string | undefined {
  if (driver === 'cgroupfs') return `/${family}/${share}`
  return driver === 'systemd' ? `${family}-${share}.slice` : undefined
}

/**
 * Removes the control group of a share. The engine leaves it there when its last container goes; systemd does not. One that still has
 * containers stays, and so does what is on another machine, or not shown here.
 */
export function removeShareGroup(share: string): void {
  for (const hierarchy of ['', ...controllers()]) {
    try {
      const group = join(root, hierarchy, family, share)
      // Created for a container that never started.
      for (const inner of hierarchy === 'memory' ? readdirSync(group) : [])
        if (/^[0-9a-f]{64}$/.test(inner)) rmdirSync(join(group, inner))
      rmdirSync(group)
    } catch {
      // Not there, or in use.
    }
  }
}

/** Folders of a machine with control groups of version 1. */
function controllers(): string[] {
  try {
    return readdirSync(root)
  } catch {
    return []
  }
}
