import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'
import { type KernelReader, kernelReader } from '../cgroup.ts'
import type { ContainerReading } from '../port.ts'
import { containerResidentBytes, type EngineReading, statsBetween } from '../stats.ts'
import { call, unless } from './calls.ts'

/** Shorter spans give CPU figures that jump; longer ones hide what the program does now. */
const minSpanMs = 200
const maxSpanMs = 120_000

/** The engine needs 1 to 2 s for its own pair of readings, so they come from the kernel where it is visible, and the last one is retained. */
export function containerReadings(docker: Docker) {
  const last = new Map<string, { reading: EngineReading; stats: ContainerReading | null }>()
  /** One per run of a container, so that the engine is queried once for it. */
  const runs = new Map<string, { kernel: KernelReader; startedAt: Date }>()

  /** One reading, or null for a container that is missing or does not run. */
  async function read(name: string): Promise<(EngineReading & { startedAt: Date }) | null> {
    const run = runs.get(name)
    const reading = run && ifAny(run.kernel)
    if (reading) return { ...reading, startedAt: run.startedAt }
    runs.delete(name)
    const info = await call(abortSignal => docker.getContainer(name).inspect({ abortSignal })).catch(unless(404))
    if (!info?.State.Running) return null
    const startedAt = new Date(info.State.StartedAt)
    const kernel = ifAny(() => kernelReader(info.State.Pid, info.Id))
    const first = kernel && ifAny(kernel)
    if (first) runs.set(name, { kernel, startedAt })
    const firstReading = first ?? (await fromEngine(name))
    return firstReading && { ...firstReading, startedAt }
  }

  async function fromEngine(name: string): Promise<EngineReading | null> {
    const options = { stream: false, 'one-shot': true } as const
    const send = (abortSignal: AbortSignal) =>
      docker.getContainer(name).stats({ ...options, abortSignal } as { stream: false })
    const stats = await call(send).catch(unless(404, 409))
    return stats && Date.parse(stats.read) > 0 ? (stats as unknown as EngineReading) : null
  }

  return {
    /** Null when the container is missing or does not run. The first reading of a container takes 0.2 s longer. */
    async stats(name: string): Promise<ContainerReading | null> {
      let before = last.get(name)
      let now = await read(name)
      if (now && before && age(before.reading, now) < minSpanMs && before.stats) return before.stats
      const usable = now && before && age(before.reading, now) <= maxSpanMs && consumed(before.reading) <= consumed(now)
      if (now && !usable) {
        before = { reading: now, stats: null }
        await sleep(minSpanMs)
        now = await read(name)
      }
      if (!now || !before) {
        last.delete(name)
        return null
      }
      const stats = {
        ...statsBetween(before.reading, now),
        startedAt: now.startedAt,
        residentBytes: containerResidentBytes(now),
      }
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

/** Null where the kernel shows nothing, or no longer: then the engine is queried. */
function ifAny<Result>(read: () => Result): Result | null {
  try {
    return read()
  } catch {
    return null
  }
}

/** A container that started again counts from zero. */
const consumed = (reading: EngineReading): number => reading.cpu_stats.cpu_usage.total_usage
