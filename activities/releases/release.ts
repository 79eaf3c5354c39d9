import type { ClaimFindings } from '../../db/operations/operation-claims.ts'
import type { OperationKind } from '../../db/operations/operations.ts'
import type { Language } from '../../policy/runtimes.ts'

/**
 * Everything that a step of a deployment needs, decided when the operation was claimed: numbers, names and ids, never bytes or
 * secrets, so that a changed table cannot change a history. Memory and disk in MB.
 */
export interface Release {
  appId: string
  ownerId: string
  hostId: string
  /** Where the containers of this application publish their ports. */
  hostAddress: string
  number: number
  uid: number
  ramMb: number
  /** What its application has reserved: it adopts a configuration with more once its release is built. */
  reservedMb: number
  cpus: number
  diskMb: number
  language: Language
  runtimeVersion: string
  main: string | null
  start: string | null
  /** Full host name of a web application, null for programs without a port. */
  hostname: string | null
  source: Source | null
  /** Directory below /app that an upload lands in; '' = the root. */
  path: string
  /** False places the files and leaves the program as it is. */
  restart: boolean
  deploymentId: string | null
  /** The operation that these decisions are for; missing from lanes of an older version. */
  operationId?: string
}

/**
 * What a host trusts of the input of a step: its operation and its release. Everything else is read again from Postgres,
 * because everyone who reaches Temporal can request a step.
 */
export type StepOf = Pick<Release, 'appId' | 'number' | 'deploymentId' | 'operationId'>

/** Where the files of a release come from. */
export type Source =
  | { kind: 'archive'; segmentId: string }
  | { kind: 'file'; segmentId: string; filename: string }
  | { kind: 'git'; cloneUrl: string; branch: string; commit: string }
  /** Null when its archive is deleted: the steps done with it can still be undone. */
  | { kind: 'snapshot'; segmentId: string | null }

/** What serves before a deploy. */
export interface Serving {
  release: Release
  running: boolean
  /** It was stopped on purpose. */
  stopped: boolean
  hostPort: number | null
}

/** An operation as its lane runs it. */
export interface LaneOperation {
  id: string
  kind: OperationKind
  /** The desired state when the operation was claimed. */
  wasDesired: 'running' | 'stopped' | 'deleted'
  /** Whether its row said then that its container runs. */
  wasRunning: boolean
  release: Release
  /** What its claim has found; missing from claims of an older version. */
  found?: ClaimFindings
  /** Its claim has shown it in the status of the application. */
  shown?: true
}

/** A container that was started. `hostPort` is null without a port. */
export interface StartedContainer {
  containerId: string
  hostPort: number | null
  /** Where that port is published; hosts of an older version omit it: then it is the address of the release. */
  hostAddress?: string | null
  startedAt: string
  /** Boot of the machine in which it was started. */
  bootId: string
  /** Version of the variables that it was started with. */
  variablesVersion: number
  /** Its program has answered already, so that there is no gate to pass. */
  answered?: true
}

/** What a host did to bring a release. */
export interface Preparation {
  needsInstall: boolean
  /** Its files are where the application finds them: nothing has to be installed, and nothing served before. */
  placed?: true
  /** Its container, started in the same step; hosts of an older version only place. */
  started?: StartedContainer
}

/** How a container ended. `at` is ISO 8601. */
export interface ContainerExit {
  containerId: string | null
  code: number | null
  oom: boolean
  at: string
}

export interface StoppedContainer extends ContainerExit {
  /** It was started again in the same step; hosts of an older version only stop. */
  started?: StartedContainer
  /** It serves where its route leads already, and that is recorded as the outcome of the operation. */
  recorded?: boolean
}
