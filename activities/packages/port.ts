import type { RegistryKind } from '../../policy/packages/registries.ts'
import type { ContainerHost, ContainerSpec } from '../containers/port.ts'

export interface PackageUseRequest {
  kind: RegistryKind
  /** The engine of the host. */
  engine: Pick<ContainerHost, 'ensureNetwork' | 'listNetworks' | 'imageId' | 'runToEnd'>
  /** The container of the step: one like it, without its sources, prints its registry. */
  spec: ContainerSpec
  signal: AbortSignal
}

/** How one install step uses the cache. */
export interface PackageUse {
  /** Variables of the step, in addition to its own. */
  env: Readonly<Record<string, string>>
  /** The shell text of the step, which does without the cache where it is not reached. */
  install(text: string): string
  /** Reports after the step whether the cache may be why it failed: it has ended since, or has answered its container with an error. To be called once. */
  hadTrouble(): Promise<boolean>
}

/** The public packages that build containers of one host have downloaded. */
export interface PackageCache {
  /** Null when a step has to do without: the cache is off, or cannot be used now. Rejects only with the reason of the signal. */
  use(request: PackageUseRequest): Promise<PackageUse | null>
  /** Where it listens, for the firewall; always in the same order. */
  endpoints(): { address: string; port: number }[]
  close(): Promise<void>
}
