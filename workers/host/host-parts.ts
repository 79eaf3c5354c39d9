import { mkdir, statfs } from 'node:fs/promises'
import { homedir, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Archives } from '../../activities/archives/port.ts'
import { archives } from '../../activities/archives/process.ts'
import { bandwidthState, type OpenedBandwidth } from '../../activities/bandwidth/port.ts'
import { openBandwidth } from '../../activities/bandwidth/tc.ts'
import { spareAfterMs } from '../../activities/child-process/spare.ts'
import { type DockerHostOptions, dockerHost } from '../../activities/containers/docker/host.ts'
import { makeNeighbourRoom, neighbourRoom } from '../../activities/containers/neighbour-table.ts'
import { networkRules } from '../../activities/containers/network-rules.ts'
import { type ContainerHost, labels } from '../../activities/containers/port.ts'
import type { HostTraits } from '../../activities/containers/spec.ts'
import { openFirewall } from '../../activities/firewall/iptables.ts'
import { type Firewall, firewallState } from '../../activities/firewall/port.ts'
import { gitCli } from '../../activities/git/cli.ts'
import type { FetchRequest, Git } from '../../activities/git/port.ts'
import type { AppHostOptions } from '../../activities/hosts/app-host-options.ts'
import type { ObjectStore } from '../../activities/objects/port.ts'
import { openObjectStore } from '../../activities/objects/select.ts'
import type { PackageCacheProcess } from '../../activities/packages/process.ts'
import type { Placement } from '../../activities/placement/port.ts'
import { placement } from '../../activities/placement/process.ts'
import type { Snapshots } from '../../activities/snapshots/port.ts'
import { snapshots } from '../../activities/snapshots/process.ts'
import { openVolumes } from '../../activities/volumes/choice.ts'
import type { Volumes } from '../../activities/volumes/port.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import { MiB } from '../../lib/bytes.ts'
import { freeBytes } from '../../lib/folders/free-bytes.ts'
import { thisMachine } from '../../lib/machine.ts'
import { configNames } from '../../policy/apps/app-config.ts'
import type { Config } from '../../policy/config.ts'
import { installCacheMb } from '../../policy/hosts/installs.ts'
import { promisedDiskMb } from '../../policy/hosts/placement.ts'
import { demandMasterKey } from '../../policy/keys.ts'
import { packageCacheMb } from '../../policy/packages/cache-rules.ts'
import { rootfsMaker } from '../../runtimes/rootfs.ts'
import { openGitProvider } from '../adapters/git-provider.ts'
import { type BuildNetwork, openBuildNetwork } from './build-network.ts'
import { deployCredentials } from './credentials.ts'
import { hostPackages } from './package-cache.ts'
import { startVariables } from './variables.ts'

/** The parts of a container host. */
export interface HostParts {
  config: Config
  log: Logger
  db: Db
  engine: ContainerHost
  /** Null if there is none; `protections` gives the reason. */
  firewall: Firewall | null
  bandwidth: OpenedBandwidth['bandwidth']
  volumes: Volumes
  archives: Archives
  store: ObjectStore
  traits: HostTraits
  builds: BuildNetwork
  /** The user that owns every application's files if the process is not root; null = each application has its own. */
  sharedUid: number | null
  memoryMb: number
  /** MB of its disk for volumes, as long as the caches of builds hold this many bytes. */
  promisedDiskMb(cachedBytes: number): Promise<number>
  /** Size of its cache of install results; 0 = none. */
  installCacheMb: number
  packages: PackageCacheProcess
  /** Size of its cache of packages; 0 = none. */
  packageCacheMb: number
  /** Bytes that are free where images are made and stored. */
  freeBytes(): Promise<number>
  /** Folder of prepared data folders of databases, next to that of images. */
  templateCache: string
  /** Which protections are on, or the reason why not, for the summary of `berth up` and `berth doctor`. */
  protections: Record<string, string>
  /** Id of this boot of the machine. */
  bootId: string
  placement: Placement
  snapshots: Snapshots
  git: Git
  gitLimits: Pick<FetchRequest, 'maxBytes' | 'timeoutSeconds' | 'allowedHosts'>
  credentials(deploymentId: string): Promise<string | null>
  variables: AppHostOptions['variables']
  close(): Promise<void>
}

/** Folder of this host's files. */
export const hostFolder = (config: Config): string => join(config.dataDir, 'hosts', config.host.id)

/** Share of the machine's memory that applications may reserve if HOST_MEMORY_MB is not set. */
const reservable = 0.9

/** Opens the parts of this host from its configuration, and sets its firewall rules. */
export async function openHost(config: Config, log: Logger): Promise<HostParts> {
  demandMasterKey(config)
  const root = hostFolder(config)
  await mkdir(root, { recursive: true, mode: 0o711 })
  const { volumes, notice: quotaNotice } = await openVolumes({ root, quota: config.host.quota })
  let isProtected = false
  const rules = networkRules({
    runs: async container => (await engine.inspect(container))?.running ?? false,
    report: (failure, words) => log.warn(failure, words),
  })
  const started: DockerHostOptions['started'] = async container => {
    if (isProtected) await rules.limit(container)
  }
  const engine: ContainerHost = dockerHost({
    dockerHost: config.host.dockerHost,
    makeRootfs: rootfsMaker(imageCache()),
    started,
  })
  const db = openDatabase({
    url: config.databaseUrl,
    pool: config.databasePool,
    applicationName: `berth-host-${config.host.id}`,
  })
  const settings = config.host.builds
  const builds = await openBuildNetwork({
    ...{ settings, gitProxy: config.git.proxy.fact, hostId: config.host.id, folder: root, db, log },
  })
  const { wholeMb: wholeDiskMb } = await diskOf(root)
  const cacheMb = installCacheMb(wholeDiskMb, config.host.installCacheMb)
  const packagesMb = packageCacheMb(wholeDiskMb, config.host.packages.cacheMb)
  const packages = hostPackages({
    ...{ hostId: config.host.id, folder: root, maxMb: packagesMb, named: config.host.packages.named, builds, log },
    proxy: settings.cacheProxy,
    open: async () => firewall?.apply(),
  })
  const { firewall, notice: firewallNotice } = await openFirewall(
    config.host.firewall,
    config.host.id,
    () => [...builds.proxies.recent(), ...packages.endpoints()],
    () => engine.listNetworks({ [labels.host]: config.host.id }),
  )
  const look = await firewall?.apply()
  const bandwidth = await openBandwidth(config.host.mbitPer256Mb)
  isProtected = firewall !== null
  const memoryMb = config.host.memoryMb ?? Math.floor((totalmem() / MiB) * reservable)
  if (firewall) {
    try {
      makeNeighbourRoom(neighbourRoom(memoryMb))
    } catch (error) {
      log.warn(
        { err: error },
        'the size of the neighbour table could not be raised: see "What stays open" in docs/decisions/containers.md',
      )
    }
  }
  const children = archives()
  const uid = process.getuid?.() ?? 0
  const placing = placement({ spareAfterMs, warn: (facts, message) => log.warn(facts, message) })
  return {
    config,
    log,
    db,
    engine,
    firewall,
    bandwidth: bandwidth.bandwidth,
    volumes,
    archives: children,
    store: await openObjectStore(config.objectStore),
    traits: {
      id: config.host.id,
      runtime: config.host.runtime,
      configNames: [...configNames, ...config.appConfigNames],
      // Builds get what is right when they begin.
      buildProxy: null,
      caBundle: null,
    },
    builds,
    sharedUid: uid === 0 ? null : uid,
    templateCache: templateCache(),
    memoryMb,
    // What the caches of builds may use is not for applications, also while they cannot be opened.
    promisedDiskMb: async cachedBytes => {
      if (config.host.promisedDiskMb !== null) return config.host.promisedDiskMb
      const [{ wholeMb, freeMb }, allocated] = await Promise.all([diskOf(root), volumes.allocatedBytes()])
      const caches = { cachesMb: cacheMb + packagesMb, cachedMb: cachedBytes / MiB }
      return promisedDiskMb({ wholeMb, freeMb, volumesMb: allocated / MiB, ...caches })
    },
    installCacheMb: cacheMb,
    packages,
    packageCacheMb: packagesMb,
    freeBytes: async () => freeBytes([root, imageCache()], await engine.dataFolder().catch(() => null)),
    protections: {
      quota: quotaNotice === null ? 'enforced' : `checked, not enforced: ${quotaNotice}`,
      firewall: look ? firewallState(look) : `off: ${firewallNotice}`,
      bandwidth: bandwidthState(bandwidth),
      users: uid === 0 ? 'one per application' : 'one for all: the host process does not run as root',
    },
    bootId: thisMachine().bootId ?? 'unknown',
    placement: placing,
    snapshots: snapshots(),
    git: gitCli({
      caBundle: () => builds.authorities.bundle(),
      proxies: config.git.proxy.proxies,
      warn: (facts, message) => log.warn(facts, message),
    }),
    gitLimits: {
      maxBytes: config.git.maxMb * MiB,
      timeoutSeconds: config.git.timeoutSeconds,
      allowedHosts: config.git.allowedHosts,
    },
    credentials: deployCredentials(db, config, await openGitProvider(config)),
    variables: startVariables(db, config),
    async close() {
      await packages.close()
      await children.close()
      placing.close()
      rules.close()
      await db.destroy()
    },
  }
}

/** The cache of all installations of this user. */
const cacheFolder = (): string => join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'berth')

/** Root file systems of images that no registry provides. */
const imageCache = (): string => join(cacheFolder(), 'images')

/** Prepared data folders of databases. */
const templateCache = (): string => join(cacheFolder(), 'database-templates')

/** The size of the file system of the host's folder, and what is free there, in MB. */
async function diskOf(folder: string): Promise<{ wholeMb: number; freeMb: number }> {
  const { bsize, blocks, bavail } = await statfs(folder)
  return { wholeMb: Math.floor((bsize * blocks) / MiB), freeMb: Math.floor((bsize * bavail) / MiB) }
}
