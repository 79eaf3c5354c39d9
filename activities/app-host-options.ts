import type { Db } from '../db/database.ts'
import type { AppTurns } from './app-turns.ts'
import type { Archives } from './archive.ts'
import type { Boot } from './boot.ts'
import type { ContainerHost, DiskLimits } from './container-host.ts'
import type { HostTraits } from './container-spec.ts'
import type { FetchRequest, Git } from './git.ts'
import type { ObjectStore } from './object-store.ts'
import type { Placement } from './placement.ts'
import type { Release } from './release.ts'
import type { DecisionOptions } from './release-decision.ts'
import type { RouteGate } from './route-gate.ts'
import type { Snapshots } from './snapshots.ts'
import type { StepTurnsOptions } from './step-turns.ts'
import type { Volumes } from './volume.ts'

export interface AppVariables {
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
  healthGateSeconds: number
  /** What each container of an application may ask of the disks; left out = anything. */
  disk?: (appId: string) => Promise<DiskLimits | null>
  placement: Placement
  snapshots: Snapshots
  /** Turns on each application of this host, shared with its reads and its watch: a paused container cannot be stopped. */
  turns: AppTurns
  git: Git
  gitLimits: Pick<FetchRequest, 'maxBytes' | 'timeoutSeconds' | 'allowedHosts'>
  /** The access token for the repository of a deployment, null when it needs none. */
  credentials(deploymentId: string): Promise<string | null>
  /** The application's own variables, read anew for each start. Rejects with READ_FAILED when one cannot be decrypted. */
  variables(release: Pick<Release, 'appId' | 'language'>): Promise<AppVariables>
  /** The user that owns every application's files, where the host may not give them one of their own (it is not root). */
  sharedUid: number | null
  boot: Boot
  /** Waited for before a container with a port is started; left out where no routes are kept. */
  routed?: RouteGate
  confirm?: StepTurnsOptions['confirm']
}
