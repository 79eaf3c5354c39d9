import type { UsedMemory } from '../../policy/databases/database-warnings.ts'
import type { EngineName } from '../../policy/databases/engine.ts'

/** Everything that decides how the engine of one database is configured; from its row. */
export interface DatabaseTraits {
  id: string
  engine: EngineName
  /** Major version. */
  version: string
  memoryMb: number
  /** The same number inside its container and outside. */
  port: number
  /** User and group of the engine, and of its files. */
  uid: number
  /** Host name by which clients reach it, `db-<id>.<domain>`. */
  hostname: string
  /** Host name or address and port in its connection URL, for engines that tell clients their own address. */
  advertised: { host: string; port: number }
  /** The image is the stand-in for MongoDB. */
  standIn: boolean
  /** Its disk is nearly full: what adds data is refused (`admitWrites`). */
  readOnly: boolean
  /**
   * A Redis whose operator prefers its speed acknowledges what its disk gets within a second, and goes on where that is full: a running one
   * gets the ballast then. Omitted = it acknowledges what is on its disk.
   */
  syncsLate?: boolean
  /** Finished WAL files are left to the host, so that the database can be restored to any second (point-in-time/port.ts); omitted = they are not. */
  archives?: boolean
  /** What it writes is compared, and then removed, so it need not be synced; omitted = it serves. */
  isScratch?: boolean
}

/** Derived passwords (policy/databases/passwords.ts). Never logged, never an argument or a variable. */
export interface DatabaseSecrets {
  /** Of the customer's user. */
  password: string
  /** Of the platform's user, in engines that cannot identify a local process. */
  platformPassword: string
}

/** Folders inside an engine's container. The host owns the settings; the engine owns all else. */
export const places = {
  /** Read-only: settings, `passwd`, and the certificate files below. */
  settings: '/etc/berth',
  data: '/data',
  /** Sockets and pipes. */
  run: '/run/berth',
} as const

/** Files in `places.settings` that exist in every container, readable for the engine's group. PEM. */
export const certificateFiles = {
  certificate: 'server.crt',
  key: 'server.key',
  /** Both in one file, the key first, for engines that want it so. */
  pair: 'server.pem',
  authority: 'ca.crt',
} as const

/** An engine as the host process reaches it: by its unix socket on the volume. */
export interface LocalEngine {
  /** Path to connect to. It may be a link into /proc/self/fd, and is valid until the call has settled. */
  socket: string
  secrets: DatabaseSecrets
  traits: DatabaseTraits
  /** It holds what was dumped, and does not change. */
  isCopy?: boolean
  /** Ends what is read, written or awaited of this engine: the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** An engine as a client reaches it. */
export interface RemoteEngine {
  host: string
  port: number
  /** Certificate of the authority, PEM; the client verifies with it. */
  authority: string
  /** Host name that the certificate must have. */
  servername: string
}

/** Whether a change is in effect, or only after the engine was restarted. */
export type Effect = 'in effect' | 'after a restart'

/** What differs between engines. One adapter each, the only file that knows its driver. All of it may be repeated. */
export interface DatabaseEngine {
  /** Text files of `places.settings` by name. Pure. */
  settings(traits: DatabaseTraits, secrets: DatabaseSecrets): Record<string, string>
  /** The command that serves. Pure. */
  command(traits: DatabaseTraits): string[]
  /** Commands that make an empty data folder one that `command` can serve, each run to its end in a container without a network. Pure. */
  initialise(traits: DatabaseTraits): string[][]
  /** What data folders that `initialise` made have in common; omitted where making one takes no time. */
  template?: DataTemplate
  /** Name of its socket in `places.run`. */
  socketName(traits: DatabaseTraits): string
  /** Resolves when the engine answers and its data are served. Rejects while it starts, or is down; with EngineLoads while it loads. */
  ping(engine: LocalEngine): Promise<void>
  /**
   * Makes the customer's user and the platform's if they are missing, sets the customer's password to `secrets.password`, and ends every open
   * connection of the customer.
   */
  setPassword(engine: LocalEngine): Promise<Effect>
  /** Logs in as the customer, verifying the certificate. Rejects when the engine does not answer, or its certificate is wrong. */
  login(engine: RemoteEngine, password: string): Promise<'accepted' | 'refused'>
  /** Serves the certificate files that were replaced; open connections stay. */
  reloadCertificate(engine: LocalEngine): Promise<Effect>
  /**
   * Of an engine whose data are all in memory: what it uses, and may use with the memory of its traits, whatever it was started with. Others
   * omit it: of them the memory of their processes counts.
   */
  memory?(engine: LocalEngine): Promise<UsedMemory>
  /**
   * Makes a running engine admit the writes of its customer, or refuse what adds data, as its traits say; its settings say so already, for
   * the next start. Ends what is writing when it begins to refuse.
   */
  admitWrites(engine: LocalEngine): Promise<void>
  /**
   * Makes the files of a running engine smaller that keep what was deleted, where what that takes meanwhile fits into `freeBytes`. Does nothing
   * where it does not, or would bring nothing. Resolves once it has started.
   */
  shrinkFiles?(engine: LocalEngine, freeBytes: number): Promise<void>
  /** Sets in an engine that runs already what its settings say, and an earlier version or another setting did not when it was started. */
  adopt?(engine: LocalEngine): Promise<void>
  /** Removes files that runs which have ended wrote in part, by the path of the data folder. No engine runs. */
  discardDrafts?(data: string): Promise<void>
  /** Repairs what a full disk has left of the data of an engine that does not start, by the path of its data folder; true = it did. */
  repair?(data: string): Promise<boolean>
}

/** A data folder of which other databases get copies, because making it takes long. It has no password and no certificate. */
export interface DataTemplate {
  /** Its name in `places.data`. */
  folder: string
  /** Paths in it that identify one database: copies are without them, and the engine makes them at its start. */
  without: readonly string[]
  /** Gives a copy in which no engine has run yet the identity of a database of its own. `folder`: its path on this host. */
  individualize(folder: string): Promise<void>
}

/** The engine did not answer as itself: it starts, is down, or is not reachable. */
export class EngineUnavailable extends Error {
  override name = 'EngineUnavailable'
}

/** It reads its data, which takes as long as they are large. */
export class EngineLoads extends EngineUnavailable {
  /** Another value after each progress. */
  readonly progress: string

  constructor(progress: string) {
    super(`The engine loads its data: ${progress}.`)
    this.progress = progress
  }
}
