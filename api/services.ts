import type { HostServices } from './hosts/services.ts'
import type { NetworkServices } from './network/services.ts'
import type { CoreServices } from './pipeline/core-services.ts'
import type { S3Services } from './s3/services.ts'
import type { ObjectServices } from './v1/services.ts'
import type { AccountServices } from './v2/account/services.ts'
import type { AiServices } from './v2/ai/services.ts'
import type { AppServices } from './v2/apps/services.ts'
import type { DatabaseServices } from './v2/databases/services.ts'
import type { DeployServices } from './v2/deploys/services.ts'
import type { GitServices } from './v2/git/services.ts'
import type { DomainServices } from './v2/network/services.ts'
import type { SnapshotServices } from './v2/snapshots/services.ts'

/** What the endpoints depend on. Composed in `workers/api-server.ts` and in tests only. */
export type Services = CoreServices &
  AccountServices &
  AiServices &
  AppServices &
  DatabaseServices &
  DeployServices &
  DomainServices &
  GitServices &
  HostServices &
  NetworkServices &
  ObjectServices &
  S3Services &
  SnapshotServices
