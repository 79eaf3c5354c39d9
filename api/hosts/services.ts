import type { HostFiles } from './host-files.ts'
import type { HostReader } from './host-reader.ts'
import type { LiveFeeds } from './live-feeds.ts'
import type { NetworkRates } from './network-rates.ts'
import type { RealtimeLeases } from './realtime-leases.ts'
import type { StreamAccess } from './stream-access.ts'

/** What reads from host processes. */
export interface HostServices {
  hosts: HostReader
  files: HostFiles
  live: LiveFeeds
  /** Slots of live streams. */
  leases: RealtimeLeases
  /** Ends open streams whose caller has lost the right to them. */
  access: StreamAccess
  rates: NetworkRates
}
