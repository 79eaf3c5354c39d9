import { join } from 'node:path'
import { labels } from '../../../../activities/containers/port.ts'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { bareDocker, bareEngine } from '../../hosts/host-remains.ts'
import type { Entry } from '../../platform/entry.ts'
import type { TestPlatform } from '../../platform/platform.ts'
import type { Disk } from '../disk.ts'

/** The power of the hosts of a stage. Rows are on another disk; that of Postgres has tests of its own. */
export interface Power {
  /** It goes for all: everything stands still while their disk is copied, and what ran has ended. */
  losePower(): Promise<void>
  /**
   * It goes for the n-th host alone, which stands still, and has what its disk has now after `losePower`, whatever others write out until
   * then. The others may run, and must not write for longer than some seconds.
   */
  losePowerEarly(n: number): Promise<void>
}

export function powerOf(hosts: readonly (Entry | null)[], platform: TestPlatform, disk: Disk): Power {
  /** Containers that stand still. */
  const paused = new Set<string>()
  /** What the disk had when the power of a host went early. */
  const copies = new Map<number, string>()
  const containersOf = (n: number) => bareEngine.list({ [labels.host]: platform.hostId(`h${n}`) })

  async function standStill(n: number): Promise<void> {
    const host = hosts[n]
    if (isRunning(host)) host.child.kill('SIGSTOP') // first: it would let what is paused go on
    const running = (await containersOf(n)).filter(one => one.running && !paused.has(one.id))
    await Promise.all(running.map(({ id }) => bareDocker.getContainer(id).pause()))
    for (const { id } of running) paused.add(id)
  }

  return {
    async losePower() {
      const all = [...hosts.keys()]
      await Promise.all(all.map(standStill))
      const copy = await disk.cut()
      await Promise.all(hosts.filter(isRunning).map(host => host.kill('SIGKILL')))
      for (const id of paused) {
        await killFrozen(id)
        await bareDocker.getContainer(id).unpause().catch(ignoreError('kernels of today end it while it is frozen'))
      }
      paused.clear()
      const containers = (await Promise.all(all.map(containersOf))).flat()
      await Promise.all(containers.map(({ name }) => bareEngine.remove(name)))
      await disk.restart(copy)
      for (const [n, early] of copies)
        await disk.restore(early, join(platform.base.settings.BERTH_DATA!, 'hosts', platform.hostId(`h${n}`)))
      copies.clear()
    },
    async losePowerEarly(n) {
      await standStill(n)
      copies.set(n, await disk.cut())
    },
  }
}

/**
 * Each process dies when it is thawed, before it does anything. The first one alone would take the others along a moment later, in which an
 * engine acknowledges a write that is in no copy.
 */
async function killFrozen(container: string): Promise<void> {
  const { Titles, Processes } = await bareDocker.getContainer(container).top()
  const column = Titles.indexOf('PID')
  for (const fields of Processes) process.kill(Number(fields[column]), 'SIGKILL')
}

/** Whether the process has not ended; one that stands still runs. */
export const isRunning = (entry: Entry | null | undefined): entry is Entry =>
  !!entry && entry.child.exitCode === null && entry.child.signalCode === null
