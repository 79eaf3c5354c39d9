import { createHash, randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { OutputLine } from '../../../activities/containers/lines.ts'
import { bridgeName } from '../../../activities/containers/network-names.ts'
import { newest, type OutputStream } from '../../../activities/containers/output.ts'
import {
  type ContainerEvent,
  type ContainerHost,
  type ContainerReading,
  type ContainerSpec,
  type ContainerState,
  type FollowOptions,
  HostUnreachable,
  ImageUnavailable,
  type NetworkSpec,
  type OnOutput,
  type OnPiece,
  PortTaken,
} from '../../../activities/containers/port.ts'
import { nanosecondsNow } from '../../../activities/containers/stamps.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'

/** What a program does, by the last word of its command. One without a row prints nothing and runs until it is stopped. */
export interface FakeProgram {
  /** Also what it makes of its container: a function reads, and writes, what the program would. */
  prints?: string | ((spec: ContainerSpec) => string)
  /** To its standard error, after what it prints. */
  complains?: string
  /** Exits after `afterMs` (0) with this code. */
  exits?: number
  afterMs?: number
  oom?: boolean
  ignoresTerm?: boolean
  /** Prints without end. */
  floods?: boolean
  /** Never listens on its published port. */
  deaf?: boolean
  /** There is no space left for it when it is started. */
  crowded?: boolean
}

interface Printed extends OutputLine {
  at: bigint
}

interface Entry {
  spec: ContainerSpec
  state: ContainerState
  output: Printed[]
  server: Server | null
  ended: Promise<void>
  end: (exitCode: number, oom?: boolean) => void
}

/** A container host in memory, held to the same contract as the real one. A published port is a real listener that answers 200. */
export class FakeContainerHost implements ContainerHost {
  readonly containers = new Map<string, Entry>()
  readonly networks = new Set<string>()
  readonly #networkSpecs = new Map<string, NetworkSpec>()
  #unreachable = false
  /** What it measures, by the name of the container; what is left out is as usual. An error = this one cannot be read. */
  readonly figures = new Map<string, Partial<ContainerReading> | Error>()
  /** How many log streams are open now, and how many were opened. */
  readonly follows = { open: 0, opened: 0 }
  #newest = 0n
  #starts = 0
  readonly #printed = new Set<() => void>()
  readonly #listeners = new Set<(event: ContainerEvent) => void>()
  readonly #programs: Record<string, FakeProgram>
  readonly #missingImages: ReadonlySet<string>

  constructor(programs: Record<string, FakeProgram> = {}, missingImages: string[] = []) {
    this.#programs = programs
    this.#missingImages = new Set(missingImages)
  }

  get unreachable(): boolean {
    return this.#unreachable
  }

  /** True = every method that calls the engine rejects with HostUnreachable, and reads break off. */
  set unreachable(is: boolean) {
    this.#unreachable = is
    if (is) for (const wake of [...this.#printed]) wake()
  }

  async ping() {
    this.#answer()
  }

  async standing() {
    this.#answer()
    return { began: 'once', liveRestore: true }
  }

  async ensureNetwork(spec: NetworkSpec) {
    this.#answer()
    this.networks.add(spec.name)
    this.#networkSpecs.set(spec.name, spec)
  }

  async removeNetwork(name: string) {
    this.#answer()
    if ([...this.containers.values()].some(({ spec }) => spec.network === name)) throw new Error(`${name} is in use.`)
    this.networks.delete(name)
    this.#networkSpecs.delete(name)
  }

  async removeShare() {}

  async listNetworks(filter: Record<string, string>) {
    this.#answer()
    const fits = (spec: NetworkSpec) => Object.entries(filter).every(([name, value]) => spec.labels[name] === value)
    return [...this.#networkSpecs.values()]
      .filter(fits)
      .map(spec => ({ name: spec.name, bridge: bridgeName(spec), subnet: '10.192.0.0/24' }))
  }

  async ensureImage(image: string) {
    this.#answer()
    if (this.#missingImages.has(image)) throw new ImageUnavailable(`The image ${image} cannot be had.`)
  }

  async prepareImage(image: string, signal?: AbortSignal) {
    signal?.throwIfAborted()
    await this.ensureImage(image)
    return true
  }

  async imageId(image: string) {
    this.#answer()
    return this.#missingImages.has(image) ? null : `sha256:${createHash('sha256').update(image).digest('hex')}`
  }

  /** Nobody replaces an image of it. */
  async removeReplacedImages() {
    this.#answer()
  }

  async dataFolder() {
    this.#answer()
    return '/var/lib/engine'
  }

  async create(spec: ContainerSpec) {
    this.#answer()
    const present = this.containers.get(spec.name)
    if (present) return present.state.id
    if (this.#missingImages.has(spec.image))
      throw Object.assign(new Error(`No such image: ${spec.image}`), { statusCode: 404 })
    if (spec.network !== 'none' && !this.networks.has(spec.network))
      throw new Error(`There is no network ${spec.network}.`)
    const id = createHash('sha256').update(randomUUID()).digest('hex')
    const state: ContainerState = {
      id,
      name: spec.name,
      labels: spec.labels,
      status: 'created',
      running: false,
      exitCode: null,
      oom: false,
      startedAt: null,
      finishedAt: null,
      hostPort: null,
      hostAddress: null,
      address: null,
    }
    this.#hold(spec, state)
    return id
  }

  /** Sets a container to this state, whatever its state was before. */
  put(state: ContainerState): void {
    const { name, labels } = state
    const entry = this.#hold({ name, labels, memoryMb: 512, command: [], publish: null } as never, { ...state })
    if (state.running) this.#begin(entry)
  }

  async start(name: string): Promise<ContainerState | null> {
    const entry = this.#entry(name)
    if (entry.state.status === 'paused') await this.unpause(name)
    if (!entry.state.running) await this.#run(name, entry)
    return { ...entry.state }
  }

  async #run(name: string, entry: Entry): Promise<void> {
    const program = this.#program(entry.spec)
    if (program.crowded) throw new NoSpaceLeft('The host has no disk space left.')
    const { publish, network } = entry.spec
    if (publish && !program.deaf) entry.server = await listen(publish)
    const hostPort = entry.server
      ? (entry.server.address() as AddressInfo).port
      : publish
        ? (publish.hostPort ?? 1)
        : null
    entry.state = {
      ...entry.state,
      status: 'running',
      running: true,
      oom: false,
      startedAt: new Date(Date.now() + 1), // engines note it when the first lines have been printed
      finishedAt: null,
      hostPort,
      hostAddress: publish?.address ?? null,
      address: network === 'none' ? null : addressOf(++this.#starts),
    }
    entry.state.exitCode = null
    const { prints = '' } = program
    this.print(name, typeof prints === 'string' ? prints : prints(entry.spec))
    this.print(name, program.complains ?? '', 'stderr')
    this.#begin(entry)
    this.#tell('start', entry.spec)
    if (program.exits !== undefined) setTimeout(() => entry.end(program.exits ?? 0, program.oom), program.afterMs ?? 0)
  }

  async stop(name: string, graceSeconds: number) {
    this.#answer()
    const entry = this.#find(name)
    if (!entry?.state.running) return
    const ignores = this.#program(entry.spec).ignoresTerm
    if (ignores) await new Promise(done => setTimeout(done, graceSeconds * 1000))
    entry.end(ignores ? 137 : entry.spec.stopSignal === 'SIGINT' ? 130 : 143)
  }

  async pause(name: string) {
    this.#answer()
    const entry = this.containers.get(name)
    if (entry?.state.status !== 'running') return
    entry.state = { ...entry.state, status: 'paused' }
    this.#tell('pause', entry.spec)
  }

  async unpause(name: string) {
    this.#answer()
    const entry = this.containers.get(name)
    if (entry?.state.status === 'paused') entry.state = { ...entry.state, status: 'running' }
  }

  /** By its name or its id. */
  #find(name: string): Entry | undefined {
    return this.containers.get(name) ?? [...this.containers.values()].find(({ state }) => state.id === name)
  }

  async remove(name: string) {
    this.#answer()
    const entry = this.#find(name)
    if (!entry) return
    entry.end(137)
    this.containers.delete(entry.spec.name)
    this.#tell('destroy', entry.spec)
  }

  async inspect(name: string) {
    this.#answer()
    const entry = this.containers.get(name)
    return entry ? { ...entry.state } : null
  }

  async list(filter: Record<string, string>) {
    this.#answer()
    return [...this.containers.values()]
      .filter(({ spec }) => carries(spec.labels, filter))
      .map(({ state: { id, name, labels, status, running, hostPort, hostAddress, address } }) => {
        return { id, name, labels, status, running, hostPort, hostAddress, address }
      })
  }

  async logs(name: string, maxBytes: number) {
    this.#answer()
    const entry = this.containers.get(name)
    if (entry?.spec.log === 'none') return ''
    return entry ? newest(textOf(entry), maxBytes) : null
  }

  /** Lets a container print whole lines. */
  print(name: string, text: string, stream: OutputStream = 'stdout'): void {
    const lines = text.split('\n').slice(0, -1)
    this.#entry(name).output.push(...lines.map(line => ({ stream, text: line, at: this.#tick() })))
    for (const wake of this.#printed) wake()
  }

  /** No two lines have the same time. */
  #tick(): bigint {
    const now = nanosecondsNow()
    this.#newest = now > this.#newest ? now : this.#newest + 1n
    return this.#newest
  }

  async followLogs(name: string, options: FollowOptions, onPiece: OnPiece, signal: AbortSignal) {
    this.#answer()
    const entry = this.containers.get(name)
    if (entry && entry.spec.log !== 'none') await this.#follow(entry, options, onPiece, signal)
  }

  async #follow(entry: Entry, { tail = 0, after }: FollowOptions, onPiece: OnPiece, signal: AbortSignal) {
    const { output } = entry
    const first = after === undefined ? Math.max(0, output.length - tail) : output.findIndex(({ at }) => at > after)
    let next = first < 0 ? output.length : first
    this.follows.open++
    this.follows.opened++
    try {
      for (; !signal.aborted; await this.#news(entry.ended, signal)) {
        this.#answer()
        while (next < output.length && !signal.aborted) {
          const { stream, text, at } = output[next++]!
          for (let cut = 0; cut === 0 || cut < text.length; cut += 16_384)
            await onPiece(stream, text.slice(cut, cut + 16_384), at)
        }
        if (!entry.state.running) break
      }
    } finally {
      this.follows.open--
    }
  }

  async readOutput(name: string, onPiece: (piece: Uint8Array) => Promise<void>, signal: AbortSignal) {
    this.#answer()
    const entry = this.containers.get(name)
    if (entry) await this.#follow(entry, {}, (_, text) => onPiece(Buffer.from(`${text}\n`)), signal)
  }

  async stats(name: string) {
    this.#answer()
    const entry = this.containers.get(name)
    if (!entry?.state.running) return null
    const figures = this.figures.get(name)
    if (figures instanceof Error) throw figures
    const memoryLimitBytes = entry.spec.memoryMb * 1024 * 1024
    const none = { networkIn: 0, networkOut: 0, blockRead: 0, blockWrite: 0 }
    const usual = { cpuPercent: 0.5, memoryBytes: 10_000_000, residentBytes: 10_000_000, memoryLimitBytes, ...none }
    return { ...usual, ...figures, startedAt: entry.state.startedAt! }
  }

  async runToEnd(spec: ContainerSpec, onOutput: OnOutput, signal: AbortSignal) {
    signal.throwIfAborted()
    await this.remove(spec.name)
    try {
      await this.create(spec)
      await this.start(spec.name)
      const entry = this.#entry(spec.name)
      if (entry.output.length > 0) await onOutput(textOf(entry))
      while (this.#program(spec).floods && !signal.aborted) await onOutput('y\n')
      signal.throwIfAborted()
      await Promise.race([entry.ended, new Promise(done => signal.addEventListener('abort', done, { once: true }))])
      signal.throwIfAborted()
      return { exitCode: entry.state.exitCode ?? 0, oom: entry.state.oom }
    } finally {
      await this.remove(spec.name)
    }
  }

  async watch(
    filter: Record<string, string>,
    onEvent: (event: ContainerEvent) => void,
    signal: AbortSignal,
    onOpen: () => void = () => {},
  ) {
    this.#answer()
    const listener = (event: ContainerEvent) => carries(event.labels, filter) && onEvent(event)
    this.#listeners.add(listener)
    onOpen()
    try {
      for (; !signal.aborted; await this.#news(null, signal)) this.#answer()
    } finally {
      this.#listeners.delete(listener)
    }
  }

  /** Resolves when something was printed, the run has ended, the signal aborts or the engine went away. */
  async #news(ended: Promise<void> | null, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#unreachable) return
    let wake = () => {}
    const woken = new Promise<void>(resolve => {
      wake = resolve
    })
    this.#printed.add(wake)
    signal.addEventListener('abort', wake)
    await (ended ? Promise.race([woken, ended]) : woken)
    this.#printed.delete(wake)
    signal.removeEventListener('abort', wake)
  }

  #hold(spec: ContainerSpec, state: ContainerState): Entry {
    const entry: Entry = { spec, state, output: [], server: null, ended: Promise.resolve(), end: () => {} }
    this.containers.set(spec.name, entry)
    return entry
  }

  /** A run that continues until `entry.end` is called. */
  #begin(entry: Entry): void {
    entry.ended = new Promise(done => {
      entry.end = (exitCode, oom = false) => {
        if (!entry.state.running) return
        entry.server?.close().closeAllConnections()
        const over = {
          running: false,
          exitCode,
          oom,
          finishedAt: new Date(),
          hostPort: null,
          hostAddress: null,
          address: null,
        } as const
        entry.state = { ...entry.state, status: 'exited', ...over }
        this.#tell('die', entry.spec)
        done()
      }
    })
  }

  #answer(): void {
    if (this.#unreachable) throw new HostUnreachable('The container engine does not answer.')
  }

  #entry(name: string): Entry {
    this.#answer()
    const entry = this.containers.get(name)
    if (!entry) throw Object.assign(new Error(`No such container: ${name}`), { statusCode: 404 })
    return entry
  }

  #program(spec: ContainerSpec): FakeProgram {
    return this.#programs[spec.command.at(-1) ?? ''] ?? {}
  }

  #tell(action: ContainerEvent['action'], spec: ContainerSpec): void {
    for (const listener of this.#listeners) listener({ action, name: spec.name, labels: spec.labels, at: new Date() })
  }
}

const textOf = ({ output }: Entry): string => output.map(({ text }) => `${text}\n`).join('')

function carries(labels: Record<string, string>, filter: Record<string, string>): boolean {
  return Object.entries(filter).every(([name, value]) => labels[name] === value)
}

/** Another one with each start, as engines may give it. */
const addressOf = (start: number): string => `10.192.${start >> 8}.${start & 255}`

function listen({ address, hostPort = 0 }: { address: string; hostPort?: number }): Promise<Server> {
  return new Promise((done, failed) => {
    const server: Server = createServer((_, response) => response.end('fake'))
    server.once('error', cause => failed(new PortTaken('The port on the host is in use.', { cause })))
    server.listen(hostPort, address, () => done(server.unref()))
  })
}
