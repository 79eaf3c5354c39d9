import { cancellationSignal, heartbeat } from '@temporalio/activity'
import { CancelledFailure } from '@temporalio/common'
import type { FairSlots } from '../../lib/async/fair-slots.ts'
import { beatMs } from '../failures.ts'
import type { Release } from '../releases/release.ts'

/**
 * Activities of a host of which each waits for its place first, beating as if it were at work. `placesOf` tells by the name in
 * which places an activity has its own; null = it waits for none.
 */
// biome-ignore lint/suspicious/noExplicitAny: activities of a group differ in their arguments
export function inPlaces<T extends Record<string, (release: Release, ...rest: any[]) => Promise<unknown>>>(
  group: T,
  placesOf: (name: string) => FairSlots | null,
): T {
  const wrapped = Object.entries(group).map(([name, activity]) => {
    const places = placesOf(name)
    if (!places) return [name, activity]
    return [
      name,
      async (release: Release, ...rest: unknown[]) => {
        const leave = await entered(name, places, release)
        try {
          return await activity(release, ...rest)
        } finally {
          leave()
        }
      },
    ]
  })
  return Object.fromEntries(wrapped)
}

async function entered(name: string, places: FairSlots, { ownerId }: Release): Promise<() => void> {
  const timer = setInterval(() => heartbeat(), beatMs)
  try {
    return await places.enterUntil(ownerId, cancellationSignal())
  } catch {
    throw new CancelledFailure(`${name} was cancelled`)
  } finally {
    clearInterval(timer)
  }
}
