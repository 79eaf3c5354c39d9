/** Runs work on one application's container and files, one at a time in the order of asking; other applications are not held up. */
export type AppTurns = <T>(appId: string, work: () => Promise<T>) => Promise<T>

/**
 * Turns inside one host process, which is the only one that touches the applications of its host. A turn must be short and
 * never ask for another of the same application.
 */
export function appTurns(): AppTurns {
  const last = new Map<string, Promise<unknown>>()
  return async (appId, work) => {
    const before = last.get(appId)
    const mine = (before ?? Promise.resolve()).catch(() => {}).then(work)
    last.set(appId, mine)
    try {
      return await mine
    } finally {
      if (last.get(appId) === mine) last.delete(appId)
    }
  }
}
