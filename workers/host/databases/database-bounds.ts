import type { ListedContainer } from '../../../activities/containers/port.ts'
import { databaseRole } from '../../../activities/databases/names.ts'
import { BandwidthKeeper, type BandwidthKeeperOptions } from '../bandwidth-keeper.ts'
import { OutputReaders, type OutputReadersOptions } from '../output-readers.ts'
import { databaseOf } from './database-residents.ts'

const residents = { role: databaseRole, idOf: databaseOf }

export type DatabaseBoundsOptions = Omit<BandwidthKeeperOptions & OutputReadersOptions, 'residents' | 'ended'>

/**
 * Bounds what the engines of customers print and send, as the programs of applications: an engine prints what its customer makes it print.
 * Call the result with the containers of these databases, or of all, until the signal aborts.
 */
export function databaseBounds(options: DatabaseBoundsOptions, signal: AbortSignal) {
  const readers = new OutputReaders({ ...options, residents }, signal)
  const bandwidths = new BandwidthKeeper({ ...options, residents })
  return (present: readonly ListedContainer[], ids?: ReadonlySet<string>): void => {
    readers.see(present, ids)
    void bandwidths.see(present, ids)
  }
}
