import { CancellationScope } from '@temporalio/workflow'

/** Runs work while nothing else under the same lock runs. */
export type Exclusive = <T>(work: () => Promise<T>) => Promise<T>

/** A mutex as a promise chain, because checking a flag is not atomic. Work that is cancelled while it waits leaves the queue immediately. */
export function oneAtATime(): Exclusive {
  let last: Promise<unknown> = Promise.resolve()
  return async work => {
    const before = last
    let leave = () => {}
    last = new Promise<void>(resolve => {
      leave = resolve
    })
    const scope = CancellationScope.current()
    try {
      // A shielded scope is notified of a cancellation too, and must not follow it.
      await (scope.cancellable ? Promise.race([before, scope.cancelRequested]) : before)
    } catch (error) {
      void before.then(leave)
      throw error
    }
    return work().finally(leave)
  }
}

const lock = oneAtATime()

/** Concurrent local steps may end in another order when their history is replayed, and the lane would be stuck. */
export function serialized<T extends object>(steps: T): T {
  type Step = (...args: unknown[]) => Promise<unknown>
  return new Proxy(steps, {
    get: (target, name) => {
      const step = Reflect.get(target, name) as Step
      return (...args: unknown[]) => lock(() => step(...args))
    },
  })
}
