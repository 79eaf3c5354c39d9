import type { z } from 'zod'
import type { Archives } from '../../activities/archives/port.ts'
import type { Captcha } from '../../activities/captcha/port.ts'
import type { GitProvider } from '../../activities/git-provider/port.ts'
import type { ObjectStore } from '../../activities/objects/port.ts'
import type { Db } from '../../db/database.ts'
import type { SegmentIds } from '../../db/objects/segment-ids.ts'
import type { StorageQuota } from '../../db/objects/storage-quota.ts'
import type { MonthUsage } from '../../db/objects/usage-upkeep.ts'
import type { SnapshotRow } from '../../db/snapshots/snapshots.ts'
import type { FairSlots } from '../../lib/async/fair-slots.ts'
import type { TtlCache } from '../../lib/async/ttl-cache.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import type { MetricPoint } from '../../policy/apps/metrics.ts'
import type { Config } from '../../policy/config.ts'
import type { HeldCall } from '../../policy/patience.ts'
import type { Downgrades, Lanes } from '../../workflows/client.ts'
import type { HostFiles } from '../hosts/host-files.ts'
import type { HostReader } from '../hosts/host-reader.ts'
import type { LiveFeeds } from '../hosts/live-feeds.ts'
import type { NetworkRates } from '../hosts/network-rates.ts'
import type { RealtimeLeases } from '../hosts/realtime-leases.ts'
import type { StreamAccess } from '../hosts/stream-access.ts'
import type { ServiceStatus } from '../status/service-status.ts'
import type { Outcomes } from '../v2/apps/outcomes.ts'
import type { KnownSources } from '../v2/git/deploy-sources.ts'
import type { PushTurns } from '../v2/git/push-turns.ts'
import type { Authenticate } from './authenticate.ts'
import type { InCountries } from './countries.ts'
import type { EarlierCredentials } from './earlier-credentials.ts'
import type { Limiter } from './limiter.ts'
import type { News } from './news.ts'

export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What the wire is made of. Composed in `workers/api.ts` and in tests, nowhere else. */
export interface Parts {
  db: Db
  config: Config
  plans: Plans
  authenticate: Authenticate
  limiter: Limiter
  store: ObjectStore
  /** Ids of bodies that are about to be stored. */
  segmentIds: SegmentIds
  /** Holds accounts within the storage that their plan includes. */
  quota: StorageQuota
  archives: Archives
  lanes: Lanes
  downgrades: Downgrades
  outcomes: Outcomes
  /** New states and output of deployments, by their ids. */
  deploymentNews: News
  /** The turns of accounts that read whole logs of deployments. */
  logTurns: FairSlots
  /** The turns of pushes that are being stored. */
  pushTurns: PushTurns
  patience: HeldCall
  hosts: HostReader
  files: HostFiles
  live: LiveFeeds
  leases: RealtimeLeases
  access: StreamAccess
  sources: KnownSources
  /** What was issued before credentials held a check. */
  earlier: EarlierCredentials
  /** The snapshots of an account, by its id. */
  accountSnapshots: TtlCache<SnapshotRow[]>
  /** What an account stores, by its id. */
  blobUsage: TtlCache<MonthUsage>
  /** The points of an application, by its id. */
  metrics: TtlCache<MetricPoint[]>
  /** Null: the operator has set up none. */
  gitProvider: GitProvider | null
  rates: NetworkRates
  service: ServiceStatus
  /** Whether an address belongs to the platform itself, so that the limit for outside addresses does not apply. */
  isInside(address: string): boolean
  /** Whether an address is registered in a country that the operator blocks. */
  isBlocked: InCountries
  /** Whether it is registered in a country whose people solve a captcha. */
  asksCaptcha: InCountries
  /** Null: no country is asked to solve one. */
  captcha: Captcha | null
  log: Log
  /** Tests watch what endpoints really say; absent in production. */
  contract?: ContractWatch
}

/** Takes endpoints by their names. */
export interface ContractWatch {
  /** An endpoint threw a code that is none of those that it declares. */
  undeclared(endpoint: string, code: string, declared: readonly string[]): void
  /** An endpoint succeeded with a value, which should be of its schema, where it has one. */
  answered(endpoint: string, value: unknown, schema: z.ZodType | undefined): void
}
