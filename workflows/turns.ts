import { CancellationScope } from '@temporalio/workflow'

/** Runs work when nothing else of its kind runs. */
export type Exclusive = <T>(work: () => Promise<T>) => Promise<T>

/** A promise chain: a flag that is looked at is no mutex. Who is cancelled while it waits leaves the queue at once. */
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
      // A shielded scope hears of the wish too, and is not to follow it.
      await (scope.cancellable ? Promise.race([before, scope.cancelRequested]) : before)
    } catch (error) {
      void before.then(leave)
      throw error
    }
    return work().finally(leave)
  }
}
