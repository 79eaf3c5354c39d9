import { KeyedLock } from '../../lib/async/keyed-lock.ts'

/** Serializes work on one application's container and files, in the order of the calls; other applications are not held up. */
export interface AppLocks {
  <T>(appId: string, work: () => Promise<T>): Promise<T>
  /** Whether work on this application is running now. */
  busy(appId: string): boolean
}

/**
 * Locks inside one host process, the only one that touches the applications of its host. Work must be short and must never
 * wait for the lock of the same application. `before` is awaited under the lock; when it rejects, the work does not start.
 */
export function appLocks(before: () => Promise<void> = async () => {}): AppLocks {
  const lock = new KeyedLock()
  const turn = <T>(appId: string, work: () => Promise<T>) => lock.run(appId, () => before().then(work))
  return Object.assign(turn, { busy: (appId: string) => lock.isHeld(appId) })
}
