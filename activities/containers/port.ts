import type { OutputStream } from './output.ts'

/** Labels of every container, network and volume of Berth; nothing without them is ever touched. */
export const labels = {
  host: 'berth.host',
  app: 'berth.app',
  database: 'berth.database',
  owner: 'berth.owner',
  release: 'berth.release',
  role: 'berth.role',
  /** Port inside, of a container that its owner's applications may reach there. */
  port: 'berth.port',
  /** Connections that programs of its owner have at that port; those from elsewhere follow from it. */
  ownerConnections: 'berth.clients',
  /** Fingerprint of a container's spec. */
  spec: 'berth.spec',
} as const

/** The requested container, independent of any client library. Built by pure functions in `activities/containers/spec.ts`. */
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
  /** A network that exists, or `none`: only the container's own loopback. */
  network: string
  /** Further names in its network, which only its containers resolve. Not with `none`. */
  aliases?: string[]
  /** Names that lead it to its own loopback, also with `none`. */
  ownNames?: string[]
  /** When all processors are busy, every share gets the same CPU time for all its containers together; omitted = no share. */
  share?: string
  binds: { source: string; target: string; readOnly: boolean }[]
  /** Container port that is published on `address`, on `hostPort`; omitted = a port of the engine's choice. Not with the network `none`. */
  publish: { port: number; address: string; hostPort?: number } | null
  /** Omitted = that of the image, which is TERM unless it says otherwise. */
  stopSignal?: 'SIGINT' | 'SIGTERM'
  stopTimeoutSeconds: number
  runtime: 'runc' | 'runsc'
  tmpMb: number
  /** Shared memory; omitted = the engine's 64 MB. It counts as the container's memory. */
  shmMb?: number
  /** Omitted = the newest 10 MB of its output are retained. `none` = nothing: only `readOutput` and `runToEnd` pass it on. */
  log?: 'none'
  /** Omitted or null = no limits. */
  disk?: DiskLimits | null
}

/** Disk limits of one container, in MB and operations per second each way; 0 = no limit. */
export interface DiskLimits {
  mbps: number
  iops: number
  /** Device of the application's own file system; reads and writes are limited. */
  own: string | null
  /** The disk that holds the images; only reads are limited: a process throttled while writing there could hold up others. */
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
  /** Address on which that port is published; null while there is none. */
  hostAddress: string | null
  /** Its IPv4 address in its network; null while it does not run, or without a network. Each start may change it. */
  address: string | null
  /** Id of its image; omitted where the engine does not report it. */
  imageId?: string
  /** Only while it runs: its first process, by its id on the engine's machine, and its memory in MB. */
  process?: { pid: number; memoryMb: number }
  /** Only while it runs and has a network. */
  connection?: ContainerConnection
}

/** How a container is connected; each start may change it. */
interface ContainerConnection {
  /** The file of its network as the engine reports it; that of a remote engine does not exist here. */
  network: string
  /** The range of its network, as `10.1.2.3/24`, and the address that the machine has in it. */
  range: string
  gateway: string
}

/** A container that has just started, for what bounds its network. */
export interface StartedContainer extends Pick<ContainerState, 'name' | 'labels'>, ContainerConnection {
  memoryMb: number
}

/** State of the engine itself. */
export interface EngineStanding {
  /** Changes with each start of the engine at which no container ran; null where the engine cannot tell. */
  began: string | null
  /** Whether containers keep running when the engine ends. */
  liveRestore: boolean
}

/** The fields that a list has for every container at the cost of one request; `inspect` returns the rest. */
export type ListedContainer = Pick<
  ContainerState,
  'id' | 'name' | 'labels' | 'status' | 'running' | 'hostPort' | 'hostAddress' | 'address'
>

/** The id of the application that a container belongs to; empty without that label. */
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

/** One reading, and the start of the run that it belongs to. */
export interface ContainerReading extends ContainerStats {
  startedAt: Date
  /** Memory without any page cache, shared memory included. */
  residentBytes: number
}

export interface NetworkSpec {
  name: string
  labels: Record<string, string>
}

/** A network of the engine; `bridge` is null when the engine chose the name of its interface. */
export interface PresentNetwork {
  name: string
  bridge: string | null
  /** Its range, as `10.1.2.0/24`, of which the machine has the first address; null where the engine does not report it. */
  subnet: string | null
}

export interface ContainerEvent {
  action: 'start' | 'die' | 'pause' | 'destroy'
  name: string
  labels: Record<string, string>
  at: Date
}

/**
 * Where following starts: with the newest `tail` lines (default 0), or with output after a moment, in nanoseconds since 1970
 * by the engine's clock. The start of a run is no such moment: an engine records it later than the program's first lines.
 */
export interface FollowOptions {
  tail?: number
  after?: bigint
}

/** Receives one line without its end, or 64 KB of a longer one, and when it was printed. The next one comes once this has settled. */
export type OnPiece = (stream: OutputStream, text: string, at: bigint) => void | Promise<void>

/** Receives a piece of output. The next one comes once this has settled: the program waits for its listener. */
export type OnOutput = (text: string) => void | Promise<void>

/** A container engine on one machine. Names derive from our ids, so every call may be repeated. */
export interface ContainerHost {
  /** Rejects with `HostUnreachable` when the engine does not answer within 10 s, as does every call below that reaches it. */
  ping(): Promise<void>
  /** Uses a new connection: an engine that is ending, and its containers with it, accepts none. */
  standing(): Promise<EngineStanding>
  ensureNetwork(spec: NetworkSpec): Promise<void>
  removeNetwork(name: string): Promise<void>
  /** Removes what the engine leaves of a share without containers; a share with containers stays. Does not call the engine. */
  removeShare(share: string): Promise<void>
  listNetworks(labels: Record<string, string>): Promise<PresentNetwork[]>
  /** Pulls the image, or makes it locally by the recipe in `runtimes/`; present already is success. Rejects with `ImageUnavailable`. Reports progress to everyone who waits for it. */
  ensureImage(image: string, onProgress?: (line: string) => void): Promise<void>
  /**
   * The same in the background, with no caller waiting for the image. Resolves to whether it is there: not when another is brought or requested meanwhile.
   * Rejects with the signal's reason when that aborts, which ends the work unless someone waits for the image by then.
   */
  prepareImage(image: string, signal?: AbortSignal): Promise<boolean>
  /** The id of a present image, by its name or its id; another image under the same name has another. Null when it is missing. */
  imageId(image: string): Promise<string | null>
  /** Removes nameless images with older versions of our programs, except those of containers and these ids. */
  removeReplacedImages(except: () => Promise<readonly string[]>): Promise<void>
  /** Folder in which the engine stores its images, on its own machine; null when it does not report it. */
  dataFolder(): Promise<string | null>
  /** Creates, or adopts the container of this name; resolves to its id. */
  create(spec: ContainerSpec): Promise<string>
  /** Running already is success; a paused one is unpaused. Like every call that writes to the host's disk, rejects with `NoSpaceLeft` when it is full. `PortTaken`: it does not run. Resolves to its state then, null when it was removed meanwhile. */
  start(name: string): Promise<ContainerState | null>
  /** By its name or its id: its stop signal, then KILL after the grace, also for a paused one; stopped already or missing is success. */
  stop(name: string, graceSeconds: number): Promise<void>
  /** Freezes every process of the container; paused already, stopped or missing is success. */
  pause(name: string): Promise<void>
  /** Resumes every process of the container; not paused or missing is success. */
  unpause(name: string): Promise<void>
  /** Kills and removes a container, by its name or its id; missing is success. */
  remove(name: string): Promise<void>
  inspect(name: string): Promise<ContainerState | null>
  list(filter: Record<string, string>): Promise<ListedContainer[]>
  /** The newest `maxBytes` of stdout and stderr, joined in order; empty for one without a log. Null when there is no such container. */
  logs(name: string, maxBytes: number): Promise<string | null>
  /**
   * Passes on the output of a container, line by line, until its run ends, the signal aborts or it is missing; rejects when the
   * stream breaks. For a container that does not run, passes on the requested past output; for one without a log, nothing.
   */
  followLogs(name: string, options: FollowOptions, onPiece: OnPiece, signal: AbortSignal): Promise<void>
  /**
   * Passes on the output of a running container from now on, in pieces with the engine's frame headers between them, until it ends, the
   * signal aborts or it is missing; rejects when the stream breaks. The program waits for the listener.
   */
  readOutput(name: string, onPiece: (piece: Uint8Array) => Promise<void>, signal: AbortSignal): Promise<void>
  stats(name: string): Promise<ContainerReading | null>
  /** Runs a container to its end, passes on its output as it comes, and removes it, also when cancelled. */
  runToEnd(spec: ContainerSpec, onOutput: OnOutput, signal: AbortSignal): Promise<{ exitCode: number; oom: boolean }>
  /**
   * Calls back for every event of containers with these labels until the signal aborts; rejects when the stream breaks. After
   * `onOpen` no change is missed: read the list then.
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

/** The requested `hostPort` is in use, by another container or program of the machine. */
export class PortTaken extends Error {
  override name = 'PortTaken'
}

export class ImageUnavailable extends Error {
  override name = 'ImageUnavailable'
}
