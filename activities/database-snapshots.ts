import { cancellationSignal } from '@temporalio/activity'
import { forgetCopies } from '../db/databases/point-in-time/copies.ts'
import type { DatabaseFacts } from '../db/operations/database-facts.ts'
import { recordStep } from '../db/operations/operations.ts'
import { findRestoredSnapshot, findSnapshotByOperation, type StoredSnapshot } from '../db/snapshots/snapshots.ts'
import { ignoreError } from '../lib/async/ignore-error.ts'
import type { EngineName } from '../policy/databases/engine.ts'
import type { DatabaseHostOptions } from './database-host.ts'
import { type DatabaseContents, DumpCorrupt, DumpPrevented, type HeardDump } from './databases/contents.ts'
import type { DumpFolder } from './databases/dump-jobs.ts'
import { databaseVolume } from './databases/names.ts'
import { momentOf, type PointInTime } from './databases/point-in-time/point-in-time.ts'
import type { LocalEngine } from './databases/port.ts'
import { type CopyUse, prepareCopy } from './databases/preparation.ts'
import { type DrillResult, notRead, notTried, removeDrill, triedSnapshot } from './databases/snapshots/drill.ts'
import { dumpOfEngine } from './databases/snapshots/dump-of-engine.ts'
import { scratchVolumes } from './databases/snapshots/scratch.ts'
import { storeDump } from './databases/snapshots/stored-dump.ts'
import { type DatabaseStep, type DatabaseStepInput, guardedDatabaseSteps } from './databases/steps.ts'
import { hosted, refusal } from './failures.ts'
import { BodyNotFound, type ObjectStore } from './objects/port.ts'
import { SnapshotCorrupt, type Snapshots, type SnapshotTotals } from './snapshots/port.ts'
import type { SnapshotSlots } from './snapshots/snapshot-slots.ts'
import { fenced } from './steps/claims.ts'

export interface DatabaseSnapshotOptions extends DatabaseHostOptions {
  store: ObjectStore
  snapshots: Snapshots
  contentsOf: (engine: EngineName) => DatabaseContents
  slots: SnapshotSlots
  /** Omitted = databases are restored from snapshots only. */
  pointInTime?: Pick<PointInTime, 'prepare' | 'backUpFirst' | 'beforeRestore'>
}

/** A snapshot in the object store that was restored and compared. */
export interface ProvedSnapshot extends StoredSnapshot {
  /** Of the contents, as the engine that restored them sees them. */
  contents: string
  /** Bytes that the dump and the loaded copy took of the host's disk. */
  restoredBytes: number
}

export type DatabaseSnapshotActivities = ReturnType<typeof databaseSnapshotActivities>

/** The steps of a container host for the snapshots of its databases, and for restores of them. */
export function databaseSnapshotActivities(host: DatabaseSnapshotOptions) {
  const { db, engine, volumes, traits, snapshots, store, slots } = host
  const { begin, lateTurn } = guardedDatabaseSteps({ ...host, hostId: traits.id })
  const { reservation, makeRoom, leaveRoom, withDump, bytesOf } = scratchVolumes(host)
  const hostId = traits.id

  /** The same database with another volume, which an operation has reserved. */
  const withVolume = (database: DatabaseFacts, { input }: DatabaseStep, name: 'dump' | 'copy'): DatabaseFacts => {
    const generation = (input.volumes as Record<string, number> | undefined)?.[name]
    if (!Number.isInteger(generation)) throw refusal('ACTION_FAILED', 'The operation has reserved no volume.')
    // A full disk of the database is none of what has a disk of its own.
    return { ...database, generation: generation as number, readOnly: false }
  }

  /** Reads a stored dump into an empty folder. */
  async function unpack(segmentId: string, folder: string, database: DatabaseFacts, signal: AbortSignal) {
    const archive = await store.open(segmentId).catch(error => {
      throw error instanceof BodyNotFound ? new SnapshotCorrupt('Its archive is missing in the object store.') : error
    })
    const owner = process.getuid?.() === 0 ? { uid: database.uid, gid: database.uid } : null
    return snapshots.unpack(archive, folder, owner, signal, { isKept: false }).finally(() => archive.close())
  }

  async function restoredCopy(
    database: DatabaseFacts,
    from: DumpFolder,
    signal: AbortSignal,
    use: Pick<CopyUse, 'loaded' | 'isKept' | 'isCompared'>,
  ): Promise<string> {
    const contents = host.contentsOf(database.engine)
    try {
      return await prepareCopy(host, database, { contents, dump: from, ...use }, signal)
    } catch (error) {
      if (error instanceof DumpCorrupt) throw refusal('SNAPSHOT_CORRUPT', error.message)
      if (error instanceof DumpPrevented) throw refusal('SNAPSHOT_FAILED', error.message)
      throw error
    }
  }

  async function take(step: DatabaseStep, signal: AbortSignal): Promise<ProvedSnapshot> {
    const { operationId } = step
    const database = step.database()
    const row = await findSnapshotByOperation(db, operationId)
    if (!row) throw refusal('SNAPSHOT_FAILED', 'The database was deleted.')
    const mine = fenced(db)
    const say = (words: string) => mine(operationId, trx => recordStep(trx, operationId, words))
    const dumpOf = withVolume(database, step, 'dump')
    const copyOf = withVolume(database, step, 'copy')
    await makeRoom(operationId, database, [dumpOf, copyOf])
    const { id: databaseId, engine: name, version } = database
    const facts = { databaseId, name: row.name, createdAt: row.created_at.toISOString(), engine: name, version }
    let lastJob: Promise<unknown> = Promise.resolve()
    let proof = { contents: '', restoredBytes: 0 }
    /** Reads the stored archive into another engine: only what was restored is a snapshot. */
    async function prove(segmentId: string, dumped: Promise<string | null>): Promise<SnapshotTotals> {
      await say('restoring the snapshot into another engine to compare it')
      let before: string | null = null
      await lastJob
      const archive = await withDump(dumpOf, async from => {
        const totals = await unpack(segmentId, from.folder, database, signal)
        // Only then: of a database that does not run, the memory of this engine is that of the one that is dumped.
        before = await dumped
        const contents = await restoredCopy(copyOf, from, signal, { isKept: false, isCompared: true })
        proof = { contents, restoredBytes: await bytesOf([dumpOf, copyOf]) }
        return totals
      }).finally(() => volumes.remove(databaseVolume(copyOf)))
      if (before !== null && before !== proof.contents)
        throw new Error('The restored copy of the database has other contents than were dumped.')
      return archive
    }
    return withDump(dumpOf, async to => {
      await say('dumping the database')
      const { folder } = to
      const during = {
        dump(heard: HeardDump, until: AbortSignal) {
          const reads = (job: Promise<void>) => {
            lastJob = job.catch(ignoreError('the dump fails with it'))
          }
          return dumpOfEngine(host, database, { to, heard, reads, signal: until })
        },
        step: say,
        prove,
      }
      const stored = await storeDump({ db, store, snapshots }, { folder, facts, signal }, during)
      return { ...stored, ...proof }
    })
  }

  /** Makes the volume that a restore is about to put in the place of the one that serves. */
  async function restore(step: DatabaseStep, signal: AbortSignal): Promise<void> {
    const database = step.database()
    const { pointInTime } = host
    const [copyOf, dumpOf] = [withVolume(database, step, 'copy'), withVolume(database, step, 'dump')]
    // A run that ended after the switch: what it made serves, and is not made anew.
    if (copyOf.generation === database.generation) return
    const snapshot = await findRestoredSnapshot(db, step.operationId)
    await makeRoom(step.operationId, database, [dumpOf, copyOf], { snapshot, successor: copyOf })
    await pointInTime?.beforeRestore(database, signal)
    // Of a run that has ended before: its base backup would be taken for one of the data that are made now.
    await forgetCopies(db, { databaseId: database.id, generation: copyOf.generation })
    const to = momentOf(step.input)
    if (to && !pointInTime) throw refusal('ACTION_FAILED', 'This host restores databases from snapshots only.')
    if (to) return withDump(dumpOf, async ({ folder }) => pointInTime?.prepare(database, copyOf, to, folder, signal))
    if (!snapshot?.segment_id) throw refusal('SNAPSHOT_NOT_FOUND', 'The snapshot was deleted.')
    const segmentId = snapshot.segment_id
    const contents = await withDump(dumpOf, async from => {
      await unpack(segmentId, from.folder, database, signal)
      const loaded = async (local: LocalEngine) => pointInTime?.backUpFirst(copyOf, local, signal)
      return restoredCopy(copyOf, from, signal, { isKept: true, isCompared: snapshot.contents !== null, loaded })
    })
    if (snapshot.contents !== null && snapshot.contents !== contents)
      throw refusal('SNAPSHOT_CORRUPT', 'The restored copy has other contents than the snapshot was taken of.')
  }

  /** Restores the snapshot of a drill into an unreachable engine; nothing of it stays. */
  async function drill(step: DatabaseStep, signal: AbortSignal): Promise<DrillResult> {
    const row = step.database()
    // Another host may have another image of this name.
    const database = row.hostId === hostId ? row : { ...row, imageId: null }
    const snapshot = await findRestoredSnapshot(db, step.operationId)
    if (!snapshot?.segment_id) throw refusal('SNAPSHOT_NOT_FOUND', 'The snapshot was deleted before it was restored.')
    const segmentId = snapshot.segment_id
    const [copyOf, dumpOf] = [withVolume(database, step, 'copy'), withVolume(database, step, 'dump')]
    await makeRoom(step.operationId, row, [dumpOf, copyOf], { snapshot })
    await fenced(db)(step.operationId, trx =>
      recordStep(trx, step.operationId, `restoring the snapshot on host ${hostId}`),
    )
    return triedSnapshot(snapshot.contents, signal, () =>
      withDump(dumpOf, async from => {
        await unpack(segmentId, from.folder, database, signal).catch(notRead)
        return restoredCopy(copyOf, from, signal, { isKept: false, isCompared: true })
      }).finally(() => volumes.remove(databaseVolume(copyOf))),
    )
  }

  /** An operation in the line for the slots of this host. */
  async function waiterOf({ operationId, ownerId, kind, row }: DatabaseStep) {
    const snapshot = await findRestoredSnapshot(db, operationId)
    const terms = { snapshot, ...(kind === 'restore' && row && { kept: row }) }
    return { hostId, operationId, ownerId, ...(row && { reserve: reservation(operationId, row, terms) }) }
  }

  /** Runs the work of a step while its operation holds a slot of the host; an attempt that fails leaves the next one its room. */
  const inSlot = <T>({ operationId }: DatabaseStepInput, work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    slots.holding({ hostId, operationId }, cancellationSignal(), async signal => {
      const done = await work(signal)
      leaveRoom(operationId)
      return done
    })

  return hosted({
    /** Resolves once this operation holds a snapshot slot of its host, which has room for it alongside what others copy. */
    async awaitDatabaseSnapshotPlace(input: DatabaseStepInput): Promise<void> {
      await slots.wait(await waiterOf(await begin('awaitDatabaseSnapshotPlace', input)), cancellationSignal())
    },

    /**
     * Dumps a database, stores the dump, and restores it from there into another engine, whose contents must be equal. Rejects with PlaceLost
     * without a slot of the host.
     */
    async takeDatabaseSnapshot(input: DatabaseStepInput): Promise<ProvedSnapshot> {
      const step = await begin('takeDatabaseSnapshot', input)
      if (input.takesFreeSlot) await slots.takeFree(await waiterOf(step))
      return inSlot(input, signal => take(step, signal))
    },

    /**
     * Makes a volume with the contents of a snapshot, or of a moment, next to the one that serves. Rejects with SNAPSHOT_CORRUPT when those
     * of a snapshot differ.
     */
    async prepareRestore(input: DatabaseStepInput): Promise<void> {
      const step = await begin('prepareRestore', input)
      // Without a slot its room is its own only until the next one looks for some.
      if (!input.inSlot) return restore(step, cancellationSignal()).finally(() => leaveRoom(step.operationId))
      return inSlot(input, signal => restore(step, signal))
    },

    /** Removes what a restore that has failed left next to the volume that serves. */
    async discardRestore(input: DatabaseStepInput): Promise<void> {
      const step = await begin('discardRestore', input)
      const database = step.database()
      for (const name of ['dump', 'copy'] as const) {
        const other = withVolume(database, step, name)
        if (other.generation !== database.generation) await volumes.remove(databaseVolume(other))
      }
    },

    /** Restores a snapshot alongside everything that serves, compares the contents, and removes them again. */
    async drillSnapshot(input: DatabaseStepInput): Promise<DrillResult> {
      const step = await begin('drillSnapshot', input).catch(notTried)
      return inSlot(input, signal => drill(step, signal)).catch(notTried)
    },

    /** Removes what a drill that was given up has left at its host, also when its database was deleted. */
    async discardDrill(input: DatabaseStepInput): Promise<void> {
      await lateTurn('discardDrill', input, step => removeDrill({ engine, volumes, hostId }, step))
    },
  })
}
