import type { OutputStream } from './output.ts'

/** Labels every container, network and volume of Berth carries; nothing without them is ever touched. */
export const labels = {
  host: 'berth.host',
  app: 'berth.app',
  owner: 'berth.owner',
  release: 'berth.release',
  role: 'berth.role',
  /** Fingerprint of what a container was made from. */
  spec: 'berth.spec',
} as const

/** What a container is asked to be, free of any client library. Built by pure functions in `activities/containers/spec.ts`. */
export interface ContainerSpec {
  name: string
  image: string
  command: string[]
  env: Record<string, string>
  labels: Record<string, string>
  user: string
  workingDir: string
  memoryMb: number
  cpus: number
  pidsLimit: number
  network: string
  /** When all processors are busy, containers of one share have as much as those of any other, together; left out: none has. */
  share?: string
  binds: { source: string; target: string; readOnly: boolean }[]
  /** Container port that is published on `address`, on a port of the engine's choice. */
  publish: { port: number; address: string } | null
  stopTimeoutSeconds: number
  runtime: 'runc' | 'runsc'
  tmpMb: number
  /** Left out or null: nothing holds it. */
  disk?: DiskLimits | null
}

/** What one container may ask of disks, in MB and operations a second each way; 0 = no limit. */
export interface DiskLimits {
  mbps: number
  iops: number
  /** Device of the application's own file system, read and written within the limits. */
  own: string | null
  /** The disk that the images lie on, read within the limits: what is held up while it writes there could hold up others. */
  host: string | null
}

export interface ContainerState {
  id: string
  name: string
  labels: Record<string, string>
  status: 'created' | 'running' | 'restarting' | 'exited' | 'removing' | 'paused' | 'dead'
  running: boolean
  exitCode: number | null
  oom: boolean
  startedAt: Date | null
  finishedAt: Date | null
  /** Published port on the host, when there is one and the container runs. */
  hostPort: number | null
  /** Where that port is published; null as long as there is none. */
  hostAddress: string | null
  /** Of one that runs: its first process, as the engine's machine numbers it, and its memory in MB. */
  process?: { pid: number; memoryMb: number }
}

/** What an engine tells of itself. */
export interface EngineStanding {
  /** Another text after each start of the engine at which no container ran; null where the engine has nothing to tell it by. */
  began: string | null
  /** Whether containers live on when the engine ends. */
  liveRestore: boolean
}

/** What a list tells of a container, at the cost of one question for all of them; the rest is told by `inspect`. */
export type ListedContainer = Pick<
  ContainerState,
  'id' | 'name' | 'labels' | 'status' | 'running' | 'hostPort' | 'hostAddress'
>

/** The id of the application that a container belongs to; empty for one without that label. */
export const appOf = ({ labels: of }: Pick<ListedContainer, 'labels'>): string => of[labels.app] ?? ''

/** One reading. CPU in percent of one core, memory and network in bytes. */
export interface ContainerStats {
  cpuPercent: number
  memoryBytes: number
  memoryLimitBytes: number
  networkIn: number
  networkOut: number
  blockRead: number
  blockWrite: number
}

/** One reading, and when the run began that it is of. */
export interface ContainerReading extends ContainerStats {
  startedAt: Date
}

export interface NetworkSpec {
  name: string
  labels: Record<string, string>
}

/** A network as the engine has it; `bridge` is null when its interface has the engine's own name. */
export interface PresentNetwork {
  name: string
  bridge: string | null
}

export interface ContainerEvent {
  action: 'start' | 'die' | 'pause' | 'destroy'
  name: string
  labels: Record<string, string>
  at: Date
}

/**
 * Where following begins: with the newest so many lines (0), or with what was printed after a moment, in nanoseconds since 1970
 * by the engine's clock. When a run began is no such moment: an engine notes it later than the program's first lines.
 */
export interface FollowOptions {
  tail?: number
  after?: bigint
}

/** Takes one line without its end, or 64 KB of a longer one, and when it was printed. The next comes when it has settled. */
export type OnPiece = (stream: OutputStream, text: string, at: bigint) => void | Promise<void>

/** Takes a piece of output. The next comes when it has settled: the program waits for whoever listens. */
export type OnOutput = (text: string) => void | Promise<void>

/** A container engine on one machine. Names are ours and derive from ids, so every verb may be repeated. */
export interface ContainerHost {
  /** Rejects with `HostUnreachable` when the engine does not answer within 10 s; every verb below that asks it does. */
  ping(): Promise<void>
  /** Asked over a line of its own: an engine that is ending, and its containers with it, takes no new one. */
  standing(): Promise<EngineStanding>
  ensureNetwork(spec: NetworkSpec): Promise<void>
  removeNetwork(name: string): Promise<void>
  /** What the engine leaves of a share without containers; one that has some stays. The engine is not asked. */
  removeShare(share: string): Promise<void>
  /** Networks with all of these labels. */
  listNetworks(filter: Record<string, string>): Promise<PresentNetwork[]>
  /** Present already, pulled, or made locally by the recipe in `runtimes/`; rejects with `ImageUnavailable`. */
  ensureImage(image: string, onProgress?: (line: string) => void): Promise<void>
  /** Creates, or adopts the container of this name; resolves to its id. */
  create(spec: ContainerSpec): Promise<string>
  /** Already running is success; what is paused goes on. Rejects with `NoSpaceLeft` when the host's disk is full, as all that writes there does. */
  start(name: string): Promise<void>
  /** Term, then kill after the grace, also of what is paused; stopped or missing already is success. */
  stop(name: string, graceSeconds: number): Promise<void>
  /** Freezes every process of the container; paused already, stopped or missing is success. */
  pause(name: string): Promise<void>
  /** Lets it go on; not paused or missing is success. */
  unpause(name: string): Promise<void>
  /** Kills and removes a container, by its name or its id; missing is success. */
  remove(name: string): Promise<void>
  inspect(name: string): Promise<ContainerState | null>
  list(filter: Record<string, string>): Promise<ListedContainer[]>
  /** stdout and stderr joined in order, the newest `maxBytes`. Null when there is no such container. */
  logs(name: string, maxBytes: number): Promise<string | null>
  /**
   * Gives what a container prints, line by line, until its run ends, the signal aborts or it is not there; rejects when the
   * stream breaks. A container that does not run gives what is asked for of its past.
   */
  followLogs(name: string, options: FollowOptions, onPiece: OnPiece, signal: AbortSignal): Promise<void>
  /**
   * Gives what a running container prints from now on, in pieces with the engine's marks between them, until it ends, the signal
   * aborts or it is not there; rejects when the stream breaks. The program waits for whoever takes them.
   */
  readOutput(name: string, onPiece: (piece: Uint8Array) => Promise<void>, signal: AbortSignal): Promise<void>
  stats(name: string): Promise<ContainerReading | null>
  /** Runs a container to its end, gives its output as it comes, removes it, also when cancelled. */
  runToEnd(spec: ContainerSpec, onOutput: OnOutput, signal: AbortSignal): Promise<{ exitCode: number; oom: boolean }>
  /**
   * Calls back for every event of containers with these labels until the signal aborts; rejects when the stream breaks. Every
   * change after a list that is read once `onOpen` was called has its event.
   */
  watch(
    filter: Record<string, string>,
    onEvent: (event: ContainerEvent) => void,
    signal: AbortSignal,
    onOpen?: () => void,
  ): Promise<void>
}

export class HostUnreachable extends Error {
  override name = 'HostUnreachable'
}

export class ImageUnavailable extends Error {
  override name = 'ImageUnavailable'
}
