import { join } from 'node:path'
import type { Logger } from 'pino'
import { buildNetwork } from '../../activities/containers/spec.ts'
import { type PackageCacheProcess, packageCache, removePackages } from '../../activities/packages/process.ts'
import type { Db } from '../../db/database.ts'
import { recordBuildFact } from '../../db/hosts/hosts.ts'
import { loop } from '../../lib/async/loop.ts'
import { MiB } from '../../lib/bytes.ts'
import type { BuildFact, BuildProxy } from '../../policy/hosts/build-settings.ts'
import { type PackageCacheState, packageCacheFact } from '../../policy/packages/cache-facts.ts'
import type { NamedRegistries } from '../../policy/packages/registries.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { BuildNetwork } from './build-network.ts'

export interface HostPackagesOptions {
  hostId: string
  /** The host's own folder. */
  folder: string
  /** 0 = no cache, and nothing of an earlier one. */
  maxMb: number
  named: NamedRegistries
  builds: BuildNetwork
  /** With credentials where the proxy demands them: no container gets it. */
  proxy: BuildProxy | null
  /** Opens new endpoints to builds. */
  open(): Promise<unknown>
  log: Logger
}

/** The cache of packages of this host. Its process starts with the first step that can use it. */
export function hostPackages({ hostId, folder, maxMb, named, builds, proxy, open, log }: HostPackagesOptions) {
  return packageCache({
    folder: packageFolder(folder),
    maxBytes: maxMb * MiB,
    named,
    network: buildNetwork(hostId),
    proxy,
    bundle: () => builds.authorities.bundle(),
    open,
    warn: (facts, message) => log.warn(facts, message),
  })
}

const packageFolder = (folder: string): string => join(folder, 'packages')

export interface PackageWatchOptions {
  db: Db
  packages: PackageCacheProcess
  maxMb: number
  hostId: string
  folder: string
  log: Logger
  everySeconds?: number
}

/** Records for operators what the cache holds and has done, in every round until the signal aborts; at first removes what an earlier setting left. */
export async function watchPackages(
  { db, packages, maxMb, hostId, folder, log, everySeconds = roundSeconds.packageCache }: PackageWatchOptions,
  signal: AbortSignal,
): Promise<void> {
  if (maxMb === 0) await removePackages(packageFolder(folder))
  let recorded = ''
  const look = async () => {
    const state: PackageCacheState = await packages.counts().catch(() => 'silent')
    const fact: BuildFact = packageCacheFact(maxMb, state, packages.fault())
    if (fact.state === recorded) return
    await recordBuildFact(db, hostId, 'packages', fact)
    recorded = fact.state
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'packages: will try again')
  await loop(look, { signal, everyMs: everySeconds * 1000, onError })
}
