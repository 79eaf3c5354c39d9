import { sharedTurns } from '../../lib/async/shared-turns.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'

/** Makes what was done in a folder last. Whoever waits for one folder at the same time shares one sync, which begins after all of them came. */
export type SyncFolder = (path: string) => Promise<void>

export const sharedFolderSync = (sync: SyncFolder = syncFolder): SyncFolder => sharedTurns(sync)
