import { Context, cancellationSignal, heartbeat } from '@temporalio/activity'
import { CancelledFailure } from '@temporalio/common'
import type { FairSlots } from '../../lib/async/fair-slots.ts'
import { beatMs } from '../failures.ts'

/** Of the input of every step at a host: the account whose share of the slots it takes. */
interface Owned {
  ownerId: string
}

/** How activities that are in a slot give it back. */
const held = new WeakMap<Context, () => void>()

/** Gives the slot of this activity back before its end, if it has one: from now on it only waits. */
export function leaveSlot(): void {
  held.get(Context.current())?.()
}

/**
 * Wraps activities of a host so that each waits for a slot first, with heartbeats as if it were at work. `slotsOf` returns the
 * slots of an activity by its name; null = it waits for none. `ahead` is what an activity of a name awaits before that, with its own heartbeats.
 */
// biome-ignore lint/suspicious/noExplicitAny: activities of a group differ in their arguments
export function inSlots<T extends Record<string, (step: never, ...rest: any[]) => Promise<unknown>>>(
  group: T,
  slotsOf: (name: string) => FairSlots | null,
  ahead: { readonly [Name in keyof T]?: (...input: Parameters<T[Name]>) => Promise<unknown> } = {},
): T {
  const wrapped = Object.entries(group).map(([name, activity]) => {
    const slots = slotsOf(name)
    if (!slots) return [name, activity]
    return [
      name,
      async (step: Owned, ...rest: unknown[]) => {
        await ahead[name as keyof T]?.(...([step, ...rest] as Parameters<T[keyof T]>))
        const leave = await enterSlot(name, slots, step)
        held.set(Context.current(), leave)
        try {
          return await activity(step as never, ...rest)
        } finally {
          leave()
        }
      },
    ]
  })
  return Object.fromEntries(wrapped)
}

async function enterSlot(name: string, slots: FairSlots, { ownerId }: Owned): Promise<() => void> {
  const timer = setInterval(() => heartbeat(), beatMs)
  try {
    return await slots.enterUntil(ownerId, cancellationSignal())
  } catch {
    throw new CancelledFailure(`${name} was cancelled`)
  } finally {
    clearInterval(timer)
  }
}
