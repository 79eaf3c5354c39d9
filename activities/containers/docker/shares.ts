import { readdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
const family = 'berth'

/**
 * The control group, by the engine's name for it, that holds all containers of one share; undefined where the engine creates none.
 * Sibling groups have the same weight, whatever their number of containers.
 */
export function shareGroup(driver: string, share: string): string | undefined {
  if (driver === 'cgroupfs') return `/${family}/${share}`
  return driver === 'systemd' ? `${family}-${share}.slice` : undefined
}

/**
 * Removes the control group of a share. The engine leaves it behind after its last container; systemd does not. A group that still has
 * containers stays, and so does one on another machine, or one that is not visible here.
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
      // Missing, or in use.
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
