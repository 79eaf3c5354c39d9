import type { Logger } from 'pino'
import type { ContainerHost } from '../../../activities/containers/port.ts'
import type { DatabaseDiskGuard } from '../../../activities/databases/disk-guard.ts'
import { databaseContainerName } from '../../../activities/databases/names.ts'
import { EngineUnavailable } from '../../../activities/databases/port.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import type { Db } from '../../../db/database.ts'
import { type HostDatabase, listDatabasesOfHost } from '../../../db/databases/databases.ts'
import { type DatabaseFacts, readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { eachConcurrently } from '../../../lib/async/concurrently.ts'
import { loop } from '../../../lib/async/loop.ts'
import {
  type DiskSpace,
  diskGuard,
  diskVerdict,
  hasRoomForBallast,
  isOutOfRoom,
  usedShare,
} from '../../../policy/databases/disk-guard.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { apart } from '../watch/apart.ts'

export interface DatabaseDisksOptions {
  db: Db
  guard: DatabaseDiskGuard
  engine: Pick<ContainerHost, 'stop'>
  /** Locks by the id of a database, shared with its activities. */
  locks: AppLocks
  hostId: string
  /** The user of all files on a host that is not root; null = each database has its own. */
  sharedUid: number | null
  log: Logger
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
}

/** Looks at the disks of the databases that run: writes end where one is nearly full, and are admitted again once it has room. */
export class DatabaseDisks {
  readonly #options: DatabaseDisksOptions
  /** The run of an engine that was set to refuse writes, by database: a new run has to be set again. */
  readonly #setReadOnly = new Map<string, string>()
  /** Engines that did not answer in the last round although their disk is full. */
  readonly #mute = new Set<string>()
  #isNearlyFull = false

  constructor(options: DatabaseDisksOptions) {
    this.#options = options
  }

  /** Pause before the next round, in milliseconds: a fast writer needs few seconds for the last tenth. */
  get pauseMs(): number {
    return (this.#isNearlyFull ? diskGuard.nearlyFullLookSeconds : diskGuard.lookSeconds) * 1000
  }

  async round(): Promise<void> {
    const { db, hostId, log } = this.#options
    const running = (await listDatabasesOfHost(db, hostId)).filter(isServing)
    const ids = new Set(running.map(({ id }) => id))
    for (const noted of [this.#setReadOnly.keys(), this.#mute.keys()])
      for (const id of noted) if (!ids.has(id)) this.#forget(id)
    let isNearlyFull = false
    await eachConcurrently(running, diskGuard.concurrency, row =>
      apart(log, { databaseId: row.id }, async () => {
        const space = await this.#options.guard.spaceOf(row)
        if (!space) return
        if (usedShare(space) >= diskGuard.nearlyFull) isNearlyFull = true
        await this.#settle(row, space)
      }),
    )
    this.#isNearlyFull = isNearlyFull
  }

  async #settle(row: HostDatabase, space: DiskSpace): Promise<void> {
    const { guard, locks, held } = this.#options
    const isReadOnly = row.read_only_since !== null
    const verdict = diskVerdict(space, isReadOnly)
    const mustSetAgain = isReadOnly && this.#setReadOnly.get(row.id) !== runOf(row)
    // Where writes have ended it waits until they are admitted: then there is room enough.
    const lacksBallast = !isReadOnly && hasRoomForBallast(space)
    const changes = verdict !== 'keep' || mustSetAgain
    if ((!changes && !lacksBallast && !isReadOnly) || locks.busy(row.id)) return
    await held()
    await locks(row.id, async () => {
      if (changes) await this.#change(row, verdict === 'admit writes' ? 'writable' : 'read-only', space)
      else if (isReadOnly) await this.#shrink(row)
      else await guard.lay(row)
    })
  }

  /** What its owner has deleted since the last look may be room. */
  async #shrink(row: HostDatabase): Promise<void> {
    const facts = await this.#factsOf(row)
    if (facts) await this.#options.guard.shrink(facts)
  }

  /** Null for one that does not run here any more. */
  async #factsOf(row: HostDatabase): Promise<DatabaseFacts | null> {
    const { db, hostId, sharedUid } = this.#options
    const facts = await readFactsOfDatabase(db, row.id)
    if (!facts || facts.hostId !== hostId || facts.generation !== row.generation || facts.status !== 'running')
      return null
    return { ...facts, uid: sharedUid ?? facts.uid }
  }

  async #change(row: HostDatabase, to: 'read-only' | 'writable', space: DiskSpace): Promise<void> {
    const { guard, log } = this.#options
    const facts = await this.#factsOf(row)
    if (!facts) return
    try {
      await guard.change(facts, to)
    } catch (error) {
      if (error instanceof EngineUnavailable && isOutOfRoom(space)) await this.#endMute(row)
      throw error
    }
    this.#forget(row.id)
    if (to === 'read-only') this.#setReadOnly.set(row.id, runOf(row))
    const share = Math.round(usedShare(space) * 100)
    log.warn({ databaseId: row.id, share, to }, 'disks: a database became read-only or writable')
  }

  /** Ends an engine that runs and answers nothing any more: its next start gets room. One that answers again in a moment goes on. */
  async #endMute({ id, generation, engine: name }: HostDatabase): Promise<void> {
    if (!this.#mute.has(id)) {
      this.#mute.add(id)
      return
    }
    this.#options.log.warn({ databaseId: id }, 'disks: ending an engine that does not answer since its disk is full')
    this.#mute.delete(id)
    await this.#options.engine.stop(databaseContainerName({ id, generation }), engines[name].stop.graceSeconds)
  }

  #forget(id: string): void {
    this.#setReadOnly.delete(id)
    this.#mute.delete(id)
  }
}

const isServing = ({ status, desired_state: desired }: HostDatabase): boolean =>
  status === 'running' && desired === 'running'

const runOf = ({ container_id, started_at }: HostDatabase): string => `${container_id}/${started_at?.getTime()}`

/** Guards the disks of a host's databases until the signal aborts. */
export async function watchDatabaseDisks(options: DatabaseDisksOptions, signal: AbortSignal): Promise<void> {
  const disks = new DatabaseDisks(options)
  await loop(() => disks.round(), {
    signal,
    everyMs: () => disks.pauseMs,
    onError: error => options.log.warn({ err: error }, 'disks: will try again'),
  })
}
