import type { OperationKind } from '../../db/operations/operations.ts'
import type { Language } from '../../policy/runtimes.ts'

/**
 * Everything a step of a deployment has to know, decided when the operation was claimed: numbers, names and ids, never bytes or
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
  /** What these decisions were made for; lanes of an older version do not tell. */
  operationId?: string
}

/**
 * What a host believes of the input of a step: of which operation it is, and which release it means. Everything else it reads anew
 * from Postgres, because whoever reaches Temporal can ask for a step.
 */
export type StepOf = Pick<Release, 'appId' | 'number' | 'deploymentId' | 'operationId'>

/** Where the files of a release come from. */
export type Source =
  | { kind: 'archive'; segmentId: string }
  | { kind: 'file'; segmentId: string; filename: string }
  | { kind: 'git'; cloneUrl: string; branch: string; commit: string }
  /** Null when its archive is gone: what was begun with it can still be taken back. */
  | { kind: 'snapshot'; segmentId: string | null }

/** What serves before a deploy. */
export interface Serving {
  release: Release
  running: boolean
  /** Somebody stopped it on purpose. */
  stopped: boolean
  hostPort: number | null
}

/** An operation as its lane runs it. */
export interface LaneOperation {
  id: string
  kind: OperationKind
  /** What was wanted when the operation was claimed. */
  wasDesired: 'running' | 'stopped' | 'deleted'
  /** Whether its container was taken to run then. */
  wasRunning: boolean
  release: Release
}

/** A container that was started. `hostPort` is null without a port. */
export interface StartedContainer {
  containerId: string
  hostPort: number | null
  /** Where that port is published; hosts of an older version do not tell: at the address of its release. */
  hostAddress?: string | null
  startedAt: string
  /** Boot of the machine in which it was started. */
  bootId: string
  /** Of the application's variables, as it was started with them. */
  variablesVersion: number
}

/** How a container ended. `at` is ISO 8601. */
export interface ContainerExit {
  containerId: string | null
  code: number | null
  oom: boolean
  at: string
}
