import { setTimeout as sleep } from 'node:timers/promises'
import Docker from 'dockerode'
import type { imagePulls } from '../../../policy/hosts/host-slots.ts'
import { applicationRange } from '../../../policy/hosts/networks.ts'
import { newest, OutputFrames } from '../output.ts'
import { type ContainerHost, type ContainerState, HostUnreachable, type StartedContainer } from '../port.ts'
import { readOutput } from './attach.ts'
import { call, engineSeconds, noLog, status, unless } from './calls.ts'
import { labelFilter, watch } from './events.ts'
import { followLogs } from './follow.ts'
import { containerImages, type MakeRootfs } from './images.ts'
import { containerNetworks } from './networks.ts'
import { createRequest } from './options.ts'
import { containerReadings } from './readings.ts'
import { runToEnd } from './run.ts'
import { removeShareGroup } from './shares.ts'
import { limitRunningSocketMemory, limitSocketMemory } from './socket-memory.ts'
import { engineStanding, FreshConnections } from './standing.ts'
import { connectedContainer, containerState, listedContainer } from './state.ts'

export interface DockerHostOptions {
  /** `unix:///path`, `tcp://address:port` or `http://address:port`. */
  dockerHost: string
  /** Makes images that no registry has. */
  makeRootfs: MakeRootfs
  /** The range from which networks get their subnets. */
  networkRange?: string
  /** Called for every started container that has a network; awaited before the start counts as done. */
  started?: (container: StartedContainer) => Promise<void>
  /** How images are pulled. */
  pulls?: typeof imagePulls
}

/** Lines of log that are read: first the number that usually suffices, because the engine decodes each line, then this max. A log has up to 10 MB. */
const logLines = [1000, 10_000]
const stopMarginSeconds = 15
/** Pause while a name becomes free. */
const pollMs = 50
const noBytes = Buffer.alloc(0)

/** A Docker engine (20.10 and newer) as a container host. Requests name no API version: new engines refuse old ones. */
export function dockerHost({
  dockerHost,
  makeRootfs,
  networkRange = applicationRange,
  pulls,
  started,
}: DockerHostOptions): ContainerHost {
  const docker = new Docker(address(dockerHost))
  const networks = containerNetworks(docker, networkRange)
  const images = containerImages(docker, makeRootfs, pulls)
  const readings = containerReadings(docker)
  const engine = engineStanding(
    new Docker({ ...address(dockerHost), agent: new FreshConnections({ keepAlive: false }) } as object),
  )
  const container = (name: string) => docker.getContainer(name)

  async function inspect(name: string): Promise<ContainerState | null> {
    const info = await call(abortSignal => container(name).inspect({ abortSignal })).catch(unless(404))
    return info ? containerState(info) : null
  }

  const host: ContainerHost = {
    async ping() {
      await call(() => docker.ping())
    },

    standing: () => engine.standing(),

    ensureNetwork: spec => networks.ensure(spec),
    removeNetwork: name => networks.remove(name),
    removeShare: async share => removeShareGroup(share),
    listNetworks: filter => networks.list(filter),
    ensureImage: (image, onProgress) => images.ensure(image, onProgress),
    prepareImage: (image, signal) => images.prepare(image, signal),
    imageId: image => images.idOf(image),
    removeReplacedImages: except => images.removeReplaced(except),
    dataFolder: () => engine.dataFolder(),

    async create(spec) {
      const cgroups = spec.share === undefined ? { driver: '' } : await engine.cgroups()
      const send = (abortSignal: AbortSignal) => docker.createContainer(createRequest(spec, cgroups, abortSignal))
      for (const deadline = Date.now() + engineSeconds * 1000; ; await sleep(pollMs)) {
        const created = await call(send).catch(unless(409))
        if (created) return created.id
        const present = await inspect(spec.name)
        if (present) return present.id
        // The name was freed between the refusal and the check: try again. An engine may also keep one for a container that it does not show.
        if (Date.now() > deadline) throw new Error(`The name ${spec.name} is taken by a container that nobody sees.`)
      }
    },

    async start(name) {
      await willStart(name)
      const send = (abortSignal: AbortSignal) => container(name).start({ abortSignal })
      await unpausing(name, () => call(send)).catch(unless(304))
      return hasStarted(name)
    },

    async stop(name, graceSeconds) {
      const send = (abortSignal: AbortSignal) => container(name).stop({ t: graceSeconds, abortSignal } as object)
      await unpausing(name, () => call(send, graceSeconds + stopMarginSeconds)).catch(async error => {
        if (status(error) === 304 || status(error) === 404) return
        if (!(error instanceof HostUnreachable)) throw error
        // The request may have arrived although its answer did not: the state of the container decides.
        const state = await inspect(name)
        if (state?.running) await call(abortSignal => container(name).kill({ abortSignal })).catch(unless(404, 409))
      })
    },

    async pause(name) {
      const send = (abortSignal: AbortSignal) => container(name).pause({ abortSignal })
      await call(send).catch(error => ignoreIfAlready(name, error, state => state?.status !== 'running'))
    },

    async unpause(name) {
      const send = (abortSignal: AbortSignal) => container(name).unpause({ abortSignal })
      await call(send).catch(error => ignoreIfAlready(name, error, state => state?.status !== 'paused'))
    },

    async remove(name) {
      readings.forget(name)
      const send = (abortSignal: AbortSignal) => container(name).remove({ force: true, v: true, abortSignal } as object)
      await unpausing(name, () => call(send)).catch(error =>
        status(error) === 409 ? waitUntilRemoved(name) : unless(404)(error),
      )
    },

    inspect,

    async list(filter) {
      const filters = { label: labelFilter(filter) }
      const containers = await call(abortSignal => docker.listContainers({ all: true, filters, abortSignal } as object))
      return containers.map(listedContainer)
    },

    async logs(name, maxBytes) {
      let text = ''
      for (const tail of logLines) {
        const options = { stdout: true, stderr: true, tail }
        const send = (abortSignal: AbortSignal) => container(name).logs({ ...options, abortSignal } as object)
        const bytes = await call(send).catch(error => (status(error) === noLog ? noBytes : unless(404)(error)))
        if (!bytes) return null
        text = new OutputFrames().push(bytes as unknown as Buffer)
        if (text.length >= maxBytes || text.split('\n').length <= tail) break
      }
      return newest(text, maxBytes)
    },

    followLogs: (name, options, onPiece, signal) => followLogs(docker, name, options, onPiece, signal),
    readOutput: (name, onPiece, signal) => readOutput(docker, name, onPiece, signal),
    stats: name => readings.stats(name),
    runToEnd: (spec, onOutput, signal) => runToEnd(docker, { ...host, willStart, hasStarted }, spec, onOutput, signal),
    watch: (filter, onEvent, signal, onOpen) => watch(docker, filter, onEvent, signal, onOpen).finally(engine.forget),
  }

  const details = (name: string) => call(abortSignal => container(name).inspect({ abortSignal })).catch(unless(404))

  async function willStart(name: string): Promise<void> {
    // A remote engine has its groups on its own machine.
    if (!dockerHost.startsWith('unix:')) return
    const cgroups = await engine.cgroups()
    if (cgroups.version !== '1') return
    const info = await details(name)
    if (info) limitSocketMemory(cgroups, info)
  }

  async function hasStarted(name: string): Promise<ContainerState | null> {
    const info = await details(name)
    if (!info) return null
    if (started) limitRunningSocketMemory(await engine.cgroups(), info)
    const connected = connectedContainer(info)
    if (connected) await started?.(connected)
    return containerState(info)
  }

  /** Engines refuse some requests for a paused container: unpauses it then, and tries again. */
  async function unpausing<T>(name: string, send: () => Promise<T>): Promise<T> {
    try {
      return await send()
    } catch (error) {
      const refused = [304, 409, 500].includes(status(error) ?? 0)
      if (!refused || (await inspect(name))?.status !== 'paused') throw error
      await host.unpause(name)
      return send()
    }
  }

  /** Engines differ in how they refuse what is already done, and an answer may be lost: the state of the container decides. */
  async function ignoreIfAlready(
    name: string,
    error: unknown,
    isDone: (state: ContainerState | null) => boolean,
  ): Promise<void> {
    if (!isDone(await inspect(name))) throw error
  }

  /** Waits for a removal that is already in progress (409): the name is free when this resolves. */
  async function waitUntilRemoved(name: string): Promise<void> {
    const deadline = Date.now() + engineSeconds * 1000
    while (await inspect(name)) {
      if (Date.now() > deadline) throw new Error(`The container ${name} could not be removed.`)
      await sleep(pollMs)
    }
  }

  return host
}

function address(text: string): Docker.DockerOptions {
  if (text.startsWith('unix://')) return { socketPath: text.slice('unix://'.length) }
  const url = new URL(text.replace(/^tcp:/, 'http:'))
  return { protocol: 'http', host: url.hostname, port: Number(url.port || 2375) }
}
