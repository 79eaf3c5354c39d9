import { randomUUID } from 'node:crypto'
import { chown, mkdir, readFile, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { throttledLog } from '../../lib/async/throttled-log.ts'
import { deadlineSignal, unlessAborted } from '../../lib/async/timeout.ts'
import type { BuildProxy } from '../../policy/hosts/build-settings.ts'
import { withoutProxy } from '../../policy/hosts/build-trust.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { type NamedRegistries, withCache } from '../../policy/packages/registries.ts'
import { labels, type NetworkSpec } from '../containers/port.ts'
import { PackageChannel } from './channel.ts'
import { imageRegistries } from './discovery.ts'
import type { CachedRegistry, PackageCounts, PackageNetwork, PackageStart } from './job.ts'
import type { PackageCache, PackageUse, PackageUseRequest } from './port.ts'

export interface PackageCacheOptions {
  /** Only this host writes to it. */
  folder: string
  /** 0 = no cache, and nothing of an earlier one. */
  maxBytes: number
  /** Free space that it leaves on the disk. */
  freeBytes?: number
  named: NamedRegistries
  /** The network of builds on this host. */
  network: NetworkSpec
  /** How the cache reaches registries. Its credentials go to its process, and no further. */
  proxy: BuildProxy | null
  /** The authorities that builds trust now. */
  bundle(): Promise<string | null>
  /** Opens new `endpoints` to builds. */
  open(): Promise<unknown>
  warn(facts: object, message: string): void
}

export interface PackageCacheProcess extends PackageCache {
  /** Null while its process does not run: it starts with the first step that can use it. Rejects when it does not answer. */
  counts(): Promise<PackageCounts | null>
  /** Why the last step that could have used it had to do without; null when none had to. */
  fault(): string | null
}

/** The running process, at the address of the network of builds. */
interface Running {
  channel: PackageChannel
  start: PackageStart
  registries: Map<string, CachedRegistry>
}

const alone = 'packages: a step does without the cache'

/** The cache as a process of its own. It starts with the first step that can use it, and again whenever it has ended. */
export function packageCache(options: PackageCacheOptions): PackageCacheProcess {
  const { folder, maxBytes, freeBytes = packageCacheRules.freeBytes, named, network, warn } = options
  const registryOfImage = imageRegistries()
  const lock = new KeyedLock()
  const exclusively = <T>(work: () => Promise<T>): Promise<T> => lock.run('', work)
  const endpoints = new Map<string, { address: string; port: number }>()
  let running: Running | null = null
  let isClosed = false
  let fault: string | null = null
  let broughtBackAt = Number.NEGATIVE_INFINITY
  let restsUntil = Number.NEGATIVE_INFINITY

  /** Its process, at the current address: an operator may have removed the network of builds. */
  async function atNetwork(engine: PackageUseRequest['engine']): Promise<Running> {
    await engine.ensureNetwork(network)
    const filter = { [labels.host]: network.labels[labels.host] ?? '' }
    const subnet = (await engine.listNetworks(filter)).find(({ name }) => name === network.name)?.subnet ?? null
    if (subnet === null) throw new Error('The engine does not report the range of the network of builds.')
    if (running?.start.subnet === subnet) return running
    await end()
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const owner = process.getuid!() === 0 ? packageCacheRules.uid : null
    if (owner !== null) await chown(folder, owner, owner)
    const address = subnet.replace(/\d+\/\d+$/, '1')
    return launch({ folder, maxBytes, freeBytes, address, subnet, owner })
  }

  /** The process has a limit for each kind of failure. This one holds even if it is no longer what it was. */
  const onWarning = throttledLog(packageCacheRules.warnings.allPerMinute, 60_000, (registry, leftOut) =>
    warn({ registry, ...(leftOut > 0 && { leftOut }) }, 'packages: a request to a registry failed'),
  )

  async function launch(start: PackageStart): Promise<Running> {
    if (isClosed) throw new Error('The host ends.')
    const channel = new PackageChannel({
      onWarning,
      onEnd: how => {
        warn({ how }, 'packages: the process of the cache ended')
        if (running?.channel === channel) void bringBack(running)
      },
    })
    running = { channel, start, registries: new Map() }
    try {
      await channel.start(start)
      return running
    } catch (error) {
      restsUntil = performance.now() + packageCacheRules.restSeconds * 1000
      await end()
      throw error
    }
  }

  /** At the same address and ports, so that the next attempts of package managers succeed. One that ends again soon waits for the next step. */
  async function bringBack({ start, registries }: Running): Promise<void> {
    running = null
    if (isClosed || performance.now() - broughtBackAt < calmMs) return
    broughtBackAt = performance.now()
    await sleep(pauseMs, undefined, { ref: false })
    await exclusively(async () => {
      if (running || isClosed) return
      const next = await launch(start)
      for (const registry of registries.values()) await serve(next, registry)
    }).catch(error => warn({ err: error }, 'packages: the process of the cache does not start again'))
  }

  async function serve({ channel, start: { address }, registries }: Running, registry: CachedRegistry) {
    const port = await channel.serve(registry, await networkNow())
    registries.set(`${registry.kind} ${registry.url}`, registry)
    const endpoint = `${address}:${port}`
    if (!endpoints.has(endpoint)) {
      endpoints.set(endpoint, { address, port })
      await options.open()
    }
    return new URL(new URL(registry.url).pathname, `http://${endpoint}`)
  }

  async function end(): Promise<void> {
    const before = running
    running = null
    endpoints.clear()
    await before?.channel.end()
  }

  async function networkNow(): Promise<PackageNetwork> {
    const path = await options.bundle()
    return { proxy: options.proxy, authorities: path === null ? null : await readFile(path, 'utf8') }
  }

  async function registryOf(request: PackageUseRequest): Promise<CachedRegistry | null> {
    const { kind } = request
    const url = named[kind]
    if (url === 'off') return null
    if (url !== null) return { kind, url, isNamed: true }
    const finding = await registryOfImage(request)
    if ('url' in finding) return { kind, url: finding.url, isNamed: false }
    fault = finding.because
    warn({ image: request.spec.image, because: fault }, alone)
    return null
  }

  /** Null while steps do without it, because it did not start: each of them would wait for that. */
  async function useNow(request: PackageUseRequest, registry: CachedRegistry): Promise<PackageUse | null> {
    request.signal.throwIfAborted()
    if (performance.now() < restsUntil) return null
    const current = await atNetwork(request.engine)
    const base = await serve(current, registry)
    const token = randomUUID()
    await current.channel.beginUse(token)
    return {
      env: withoutProxy(request.spec.env, base.hostname),
      install: text => withCache(registry.kind, base, token, text),
      async hadTrouble() {
        const had = await current.channel.endUse(token).catch(() => null)
        if (had === null) return true
        const isReached = had.requests > 0
        const remedy = `open ${base.host} to the bridge of builds in the machine's firewall`
        fault = isReached ? null : `no build reaches it: ${remedy}`
        // A step that has not reached it did without it already. Builds may not reach what an operator has named.
        return had.troubles + (registry.isNamed ? had.passedOn : 0) > 0
      },
    }
  }

  return {
    async use(request) {
      if (maxBytes === 0) return null
      try {
        const registry = await registryOf(request)
        if (!registry) return null
        const signal = deadlineSignal(packageCacheRules.startSeconds * 1000, request.signal)
        return await unlessAborted(
          exclusively(() => useNow(request, registry)),
          signal,
        )
      } catch (error) {
        request.signal.throwIfAborted()
        fault = (error as Error).message
        warn({ err: error }, alone)
        return null
      }
    },
    endpoints: () => [...endpoints].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one),
    counts: async () => (await running?.channel.counts()) ?? null,
    fault: () => fault,
    async close() {
      isClosed = true
      await end()
    },
  }
}

/** A process is not started again by itself more often than this. */
const calmMs = 5000
const pauseMs = 100

/** Removes what an earlier setting left. */
export const removePackages = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true }).catch(ignoreError('it is only space, and the next start tries again'))
