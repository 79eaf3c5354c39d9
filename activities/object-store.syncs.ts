import { syncFolder } from '../lib/sync-folder.ts'

/** Makes what was done in a folder last. Whoever waits for one folder at the same time shares one sync, which begins after all of them came. */
export type SyncFolder = (path: string) => Promise<void>

export function sharedFolderSync(sync: SyncFolder = syncFolder): SyncFolder {
  const running = new Map<string, Promise<void>>()
  const next = new Map<string, Promise<void>>()
  return path => {
    const waiting = next.get(path)
    if (waiting) return waiting
    const turn = (running.get(path) ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        next.delete(path)
        const now = sync(path).finally(() => {
          if (running.get(path) === now) running.delete(path)
        })
        running.set(path, now)
        return now
      })
    next.set(path, turn)
    return turn
  }
}
