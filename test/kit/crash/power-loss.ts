import { readdirSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { processStat, startTicks } from '../../../lib/process-stat.ts'
import { readRecord } from '../../../workers/supervisor/process-record.ts'
import { comesTrue } from '../comes-true.ts'
import { bareEngine, remainsOf } from '../hosts/host-remains.ts'
import { testInstallation } from '../platform/installation.ts'
import { type Disk, openDisk } from './disk.ts'

export type PowerLossPlatform = ReturnType<typeof testInstallation> & {
  disk: Disk
  /**
   * The power goes: every process stands still, the disk is copied as it is, and what ran has ended. The copy takes the disk's place;
   * nothing has been started from it yet.
   */
  losePower(): Promise<void>
}

/** Call it with `await`, before anything is declared, at the top level of a test file: an installation with its whole data folder on a disk that can lose its power. */
export async function testPowerLoss(settings: Record<string, string>): Promise<PowerLossPlatform> {
  // Before anything is declared: the runner waits for nothing after the first hook.
  const disk = await openDisk(4096)
  const platform = testInstallation(settings, { above: disk.folder })
  // After the platform's own hook: the runner starts immediately with a hook that is declared before the first serial one.
  test.after.always('take the disk away', () => disk.remove())
  return {
    ...platform,
    disk,
    async losePower() {
      const supervisor = readRecord(join(platform.dataDir, 'run'), 'supervisor')
      if (!supervisor) throw new Error('The platform does not run.')
      const pids = await standStill(supervisor.pid)
      const copy = await disk.cut()
      for (const pid of pids) process.kill(pid, 'SIGKILL')
      await comesTrue(() => pids.every(pid => startTicks(pid) === null))
      // A machine that starts again has none of them running. What they had open would hold the old disk.
      for (const hostId of await readdir(join(platform.dataDir, 'hosts'))) {
        const { containers } = await remainsOf(platform.dataDir, hostId)
        await Promise.all(containers.map(name => bareEngine.remove(name)))
      }
      await disk.restart(copy)
    },
  }
}

/** Stops a process and everything that descends from it, and resolves to them once none is left that could start another. */
async function standStill(root: number): Promise<number[]> {
  const stopped = new Set<number>()
  for (let found = true; found; await sleep(5)) {
    found = false
    for (const pid of [root, ...descendants(root)]) {
      if (stopped.has(pid)) continue
      try {
        process.kill(pid, 'SIGSTOP')
        stopped.add(pid)
        found = true
      } catch {} // it has ended
    }
  }
  return [...stopped]
}

function descendants(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc').filter(entry => /^\d+$/.test(entry))) {
    const parent = processStat(Number(name))?.parent
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const below = (pid: number): number[] => (children.get(pid) ?? []).flatMap(child => [child, ...below(child)])
  return below(root)
}
