import { MiB } from '../../../lib/bytes.ts'
import { messageOf } from '../../../lib/message-of.ts'
import { engineProgress as rules } from '../../../policy/databases/database-steps.ts'
import type { ContainerStats } from '../../containers/port.ts'
import { refusal } from '../../failures.ts'
import { EngineLoads } from '../port.ts'

type Work = Pick<ContainerStats, 'cpuPercent' | 'blockRead' | 'blockWrite'>

export interface ServeLimits {
  /** Max seconds without progress until an engine serves. */
  serve: number
  /** Max seconds in all. */
  load: number
}

/**
 * Follows an engine that does not serve yet. It makes progress while it reports that itself, or while its container works: engines that
 * recover, or load what they have, do not answer meanwhile. `workOf` reads what its container does; `now` is in milliseconds.
 */
export function engineProgress(
  workOf: () => Promise<Work | null>,
  { serve, load }: ServeLimits,
  now: () => number = () => performance.now(),
) {
  const startedAt = now()
  let since = startedAt
  let reported = ''
  /** Of its disk, at its last progress. */
  let bytes = 0

  async function works(): Promise<boolean> {
    // What cannot be read now may be read next time.
    const work = await workOf().catch(() => null)
    if (!work) return false
    const moved = work.blockRead + work.blockWrite
    const isWorking = work.cpuPercent >= rules.cpuPercent || moved - bytes >= rules.diskMb * MiB
    if (isWorking || moved < bytes) bytes = moved
    return isWorking
  }

  return {
    /** Reads what its container does; call it every second or two. */
    async look(): Promise<void> {
      if (await works()) since = now()
    },

    /** Throws ACTION_FAILED once it has made no progress for too long. `last` is how it did not answer. */
    demand(last: unknown): void {
      if (last instanceof EngineLoads && last.progress !== reported) [reported, since] = [last.progress, now()]
      const words = messageOf(last)
      if (now() - startedAt > load * 1000)
        throw refusal('ACTION_FAILED', `The engine did not serve within ${load / 3600} hours: ${words}`)
      if (now() - since > serve * 1000)
        throw refusal('ACTION_FAILED', `The engine did not serve within ${serve} s: ${words}`)
    },
  }
}
