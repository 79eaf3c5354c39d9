import type { Db } from '../../db/database.ts'
import type { Archives } from '../archives/port.ts'
import type { BuildAuthorities } from '../builds/authorities.ts'
import type { ContainerHost, DiskLimits } from '../containers/port.ts'
import type { HostTraits } from '../containers/spec.ts'
import type { ProxyAddresses } from '../firewall/proxy-addresses.ts'
import type { FetchRequest, Git } from '../git/port.ts'
import type { InstallCache } from '../installs/port.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { PackageCache } from '../packages/port.ts'
import type { Placement } from '../placement/port.ts'
import type { DecisionOptions } from '../releases/decision.ts'
import type { Release } from '../releases/release.ts'
import type { Snapshots } from '../snapshots/port.ts'
import type { AppLocks } from '../steps/app-locks.ts'
import type { GuardedStepsOptions } from '../steps/guarded-steps.ts'
import type { Volumes } from '../volumes/port.ts'
import type { Boot } from './boot.ts'
import type { RouteGate } from './route-gate.ts'

interface AppVariables {
  version: number
  values: Readonly<Record<string, string>>
}

export interface AppHostOptions extends DecisionOptions {
  db: Db
  engine: ContainerHost
  volumes: Volumes
  archives: Archives
  store: ObjectStore
  traits: HostTraits
  /** Makes `traits.caBundle` again when it is out of date; omitted = it never is. */
  authorities?: BuildAuthorities
  /** Gives `traits.buildProxy` for a build that begins; omitted = it stays as it is. */
  proxies?: Pick<ProxyAddresses, 'forBuilds'>
  healthGateSeconds: number
  /** Disk limits of each container of an application; omitted = none. */
  disk?: (appId: string) => Promise<DiskLimits | null>
  placement: Placement
  snapshots: Snapshots
  /** The lock of each application of this host, shared with its reads and its watch: a paused container cannot be stopped. */
  locks: AppLocks
  git: Git
  gitLimits: Pick<FetchRequest, 'maxBytes' | 'timeoutSeconds' | 'allowedHosts'>
  /** The access token for the repository of a deployment, null when it needs none. */
  credentials(deploymentId: string): Promise<string | null>
  /** The application's own variables, read again for each start. Rejects with READ_FAILED when one cannot be decrypted. */
  variables(release: Pick<Release, 'appId' | 'language'>): Promise<AppVariables>
  /** The user that owns every application's files on a host that is not root and cannot change owners; null = each its own. */
  sharedUid: number | null
  boot: Boot
  /** Awaited before a container with a port is started; omitted where there are no routes. */
  routed?: RouteGate
  confirm?: GuardedStepsOptions['confirm']
  /** Results of install steps; omitted = only earlier releases of an application lend theirs. */
  installs?: InstallCache
  /** Public packages that builds of this host have downloaded; omitted = each step downloads its own. */
  packages?: Pick<PackageCache, 'use'>
  /** Reports to operators what no one else sees. */
  warn?(facts: object, message: string): void
}
