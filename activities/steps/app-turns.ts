import { KeyedLock } from '../../lib/async/keyed-lock.ts'

/** Runs work on one application's container and files, one at a time in the order of asking; other applications are not held up. */
export interface AppTurns {
  <T>(appId: string, work: () => Promise<T>): Promise<T>
  /** Whether somebody holds a turn of this application now. */
  busy(appId: string): boolean
}

/**
 * Turns inside one host process, which is the only one that touches the applications of its host. A turn must be short and
 * never ask for another of the same application. `before` is awaited in each; when it rejects, the work is not begun.
 */
export function appTurns(before: () => Promise<void> = async () => {}): AppTurns {
  const lock = new KeyedLock()
  const turn = <T>(appId: string, work: () => Promise<T>) => lock.run(appId, () => before().then(work))
  return Object.assign(turn, { busy: (appId: string) => lock.isHeld(appId) })
}
