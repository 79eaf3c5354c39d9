import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { sharedTurns } from '../../lib/shared-turns.ts'

/** Makes what was done in a folder last. Whoever waits for one folder at the same time shares one sync, which begins after all of them came. */
export type SyncFolder = (path: string) => Promise<void>

export const sharedFolderSync = (sync: SyncFolder = syncFolder): SyncFolder => sharedTurns(sync)
