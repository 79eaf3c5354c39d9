import type { Filling } from '../snapshots/port.ts'
import type { DatabaseTraits, LocalEngine } from './port.ts'

/** Where the containers of an `EngineJob` find the dump. */
export const dumpPlace = '/dump'

/** A folder for a dump, and containers that work on it: the engine's image, its user, no network, 1 GB of memory. */
export interface EngineJob {
  /** The folder on this host, which is `dumpPlace` in the containers. Empty before `dump`, which alone writes it. */
  folder: string
  /** The data folder of the engine on this host, which the engine may change at any time. */
  data: string
  /**
   * Runs a command to its end in a container with the engine's sockets (`places.run`), settings (read-only) and data (`places.data`,
   * read-only unless the engine has not been started). Rejects with its last output unless it exits with 0; once the signal has aborted and the
   * container is removed. `hear` gets what it prints meanwhile.
   */
  run(command: string[], options?: { signal?: AbortSignal; hear?: (output: string) => void }): Promise<void>
  /** Notified of the files of a dump while they are written; omitted = they are not read meanwhile. */
  heard?: HeardDump | undefined
}

/** What is copied while it is dumped. */
export interface HeardDump extends Filling {
  /**
   * The folder has the whole dump, and nothing writes to it any more: only its digest is still read, once this has resolved. Rejects when the
   * dump is not wanted any more.
   */
  complete(): Promise<void> | void
}

/** What a database contains: how it leaves an engine and comes back. One adapter each, next to that of the engine. */
export interface DatabaseContents {
  /**
   * Writes all that is the customer's into the folder of the job, as one consistent moment: data, definitions, users with their rights, but
   * no passwords and nothing of the platform's. Resolves to the digest of that moment, or to null where only a restored copy can be digested;
   * `heard` learns before that the dump is complete, where the digest is read after it.
   */
  dump(engine: LocalEngine, job: EngineJob): Promise<string | null>
  /** For engines that load while they start: puts the dump into a data folder that was initialised and never served. */
  loadBeforeStart(traits: DatabaseTraits, job: EngineJob): Promise<void>
  /** Loads a dump into an engine that serves no data yet and has its users. Nothing left to do is success. */
  load(engine: LocalEngine, job: EngineJob): Promise<void>
  /** SHA-256 in hex over all that is the customer's; equal for equal contents, whatever their order on disk. */
  digest(engine: LocalEngine): Promise<string>
}

/** The customer keeps the engine from being dumped. A retry would take the place of others for as long again. */
export class DumpPrevented extends Error {
  override name = 'DumpPrevented'
}

/** A dump is incomplete, or does not load. A retry of a restore is useless. */
export class DumpCorrupt extends Error {
  override name = 'DumpCorrupt'
}
