import type { BuildProxy } from '../../policy/hosts/build-settings.ts'
import type { RegistryKind } from '../../policy/packages/registries.ts'

// The messages between the process of the cache and the host process.

/** A registry that the cache stands in for. */
export interface CachedRegistry {
  kind: RegistryKind
  /** With a slash at its end. */
  url: string
  /** An operator has named it, so it may be at a private address. */
  isNamed: boolean
}

/** How the cache reaches registries: with the authorities of builds, and with a proxy that may have credentials. */
export interface PackageNetwork {
  proxy: BuildProxy | null
  /** PEM text of the trusted authorities; null = those of Node. */
  authorities: string | null
}

/** The first message. */
export interface PackageStart {
  folder: string
  maxBytes: number
  freeBytes: number
  /** Where it listens, and the only network that it answers. */
  address: string
  subnet: string
  /** The user that it becomes; null = it stays what it is. */
  owner: number | null
}

export type PackageRequest = { id: number } & (
  | { kind: 'start'; start: PackageStart }
  | { kind: 'serve'; registry: CachedRegistry; network: PackageNetwork }
  | { kind: 'counts' }
  /** Before a step, and after it. */
  | { kind: 'begin'; token: string }
  | { kind: 'end'; token: string }
)

/** What the cache holds and has done since its start. */
export interface PackageCounts {
  bytes: number
  entries: number
  /** Requests of steps. */
  requests: number
  /** Archives from the disk, and archives that were downloaded. */
  hits: number
  downloads: number
  /** Answers that may have failed a step: errors, refusals, and what was cut off. */
  troubles: number
  /** Requests that were sent to the registry itself. */
  passedOn: number
}

/** What the container of one step has had from the cache. */
export type UseCounts = Pick<PackageCounts, 'requests' | 'troubles' | 'passedOn'>

export type PackageReply = { id: number } & (
  | { kind: 'started' }
  | { kind: 'serving'; port: number }
  | ({ kind: 'counts' } & PackageCounts)
  | { kind: 'begun' }
  | ({ kind: 'ended' } & UseCounts)
  | { kind: 'failed'; message: string }
)
