import { patched } from '@temporalio/workflow'
import type { Unhealthy } from '../activities/app-host.ts'
import type { LaneOperation, StartedContainer } from '../activities/releases/release.ts'
import { gateStarts } from '../policy/timeouts.ts'
import type { Host } from './lane-steps.ts'

/**
 * Starts the release that an operation brings, unless `earlierStart` has, and checks whether it is healthy; null = it is. A container
 * that was removed before that, or ended by its engine, proves nothing about its program: the release is started again, possibly on another
 * port.
 */
export async function startHealthy(
  { build }: Host,
  release: LaneOperation['release'],
  earlierStart?: StartedContainer,
): Promise<{ started: StartedContainer; unhealthy: Unhealthy | null }> {
  for (let starts = 1; ; starts++) {
    const started = (starts === 1 && earlierStart) || (await build.startRelease(release))
    const unhealthy = started.answered ? null : await build.passHealthGate(release, started)
    const again = unhealthy?.gone && starts < gateStarts && patched('removed-is-started-again')
    if (!again) return { started, unhealthy }
  }
}
