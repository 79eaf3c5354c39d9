import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'
import { type KernelReader, kernelReader } from '../cgroup.ts'
import type { ContainerReading } from '../port.ts'
import { type EngineReading, statsBetween } from '../stats.ts'
import { call, unless } from './calls.ts'

/** Shorter spans give CPU figures that jump; longer ones hide what the program does now. */
const shortestMs = 200
const maxMs = 120_000

/** The engine's own pair of readings takes it 1 to 2 s, so readings come from the kernel where it can be seen, and the last is kept. */
export function containerReadings(docker: Docker) {
  const last = new Map<string, { reading: EngineReading; stats: ContainerReading | null }>()
  /** Of each run, so that the engine is asked once for it. */
  const runs = new Map<string, { kernel: KernelReader; startedAt: Date }>()

  /** One reading, or null for a container that is missing or does not run. */
  async function read(name: string): Promise<(EngineReading & { startedAt: Date }) | null> {
    const known = runs.get(name)
    const reading = known && ifAny(known.kernel)
    if (reading) return { ...reading, startedAt: known.startedAt }
    runs.delete(name)
    const info = await call(abortSignal => docker.getContainer(name).inspect({ abortSignal })).catch(unless(404))
    if (!info?.State.Running) return null
    const startedAt = new Date(info.State.StartedAt)
    const kernel = ifAny(() => kernelReader(info.State.Pid, info.Id))
    const first = kernel && ifAny(kernel)
    if (first) runs.set(name, { kernel, startedAt })
    const found = first ?? (await fromEngine(name))
    return found && { ...found, startedAt }
  }

  async function fromEngine(name: string): Promise<EngineReading | null> {
    const options = { stream: false, 'one-shot': true } as const
    const send = (abortSignal: AbortSignal) =>
      docker.getContainer(name).stats({ ...options, abortSignal } as { stream: false })
    const found = await call(send).catch(unless(404, 409))
    return found && Date.parse(found.read) > 0 ? (found as unknown as EngineReading) : null
  }

  return {
    /** Null when the container is missing or does not run. Takes 0.2 s more for the first reading of a container. */
    async stats(name: string): Promise<ContainerReading | null> {
      let before = last.get(name)
      let now = await read(name)
      if (now && before && age(before.reading, now) < shortestMs && before.stats) return before.stats
      const usable = now && before && age(before.reading, now) <= maxMs && consumed(before.reading) <= consumed(now)
      if (now && !usable) {
        before = { reading: now, stats: null }
        await sleep(shortestMs)
        now = await read(name)
      }
      if (!now || !before) {
        last.delete(name)
        return null
      }
      const stats = { ...statsBetween(before.reading, now), startedAt: now.startedAt }
      last.set(name, { reading: now, stats })
      return stats
    },

    forget(name: string): void {
      last.delete(name)
      runs.delete(name)
    },
  }
}

const age = (before: EngineReading, now: EngineReading): number => Date.parse(now.read) - Date.parse(before.read)

/** Null where the kernel shows nothing, or nothing any more: the engine knows. */
function ifAny<Result>(look: () => Result): Result | null {
  try {
    return look()
  } catch {
    return null
  }
}

/** A container that started again counts from zero. */
const consumed = (reading: EngineReading): number => reading.cpu_stats.cpu_usage.total_usage
