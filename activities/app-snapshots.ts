import { cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { configOf } from '../db/apps/app-configuration.ts'
import { loadApp } from '../db/apps/apps.ts'
import * as segments from '../db/objects/segments.ts'
import { recordStep } from '../db/operations/operations.ts'
import {
  findSnapshotByOperation,
  recordSnapshotContext,
  type SnapshotRow,
  type StoredSnapshot,
} from '../db/snapshots/snapshots.ts'
import { ignoreError } from '../lib/async/ignore-error.ts'
import type { AppHostOptions } from './app-host-options.ts'
import { hosted, refusal } from './failures.ts'
import type { DecisionOptions } from './releases/decision.ts'
import { releaseFolders } from './releases/files.ts'
import type { Release, StepOf } from './releases/release.ts'
import { standstill } from './snapshots/app-standstill.ts'
import { type MadeSnapshot, SnapshotCorrupt, type SnapshotFacts } from './snapshots/port.ts'
import { snapshotPlaces } from './snapshots/snapshot-place.ts'
import { fenced } from './steps/claims.ts'
import { stepTurns } from './steps/step-turns.ts'

export type AppSnapshotActivities = ReturnType<typeof appSnapshotActivities>

export type AppSnapshotOptions = Pick<
  AppHostOptions,
  | 'db'
  | 'engine'
  | 'volumes'
  | 'store'
  | 'snapshots'
  | 'turns'
  | 'traits'
  | 'sharedUid'
  | 'confirm'
  | keyof DecisionOptions
>

/** Until the archive is recorded, the sweep is told that it is still wanted. */
const drawAgainMs = 5 * 60_000

/** What a container host does for the snapshots of its applications. */
export function appSnapshotActivities(host: AppSnapshotOptions) {
  const { db, store, snapshots, volumes } = host
  const places = snapshotPlaces(db)
  const { begin } = stepTurns(host)
  const hostId = host.traits.id

  /** Copies the application's files into the object store. */
  async function copy(facts: SnapshotFacts, release: number, segmentId: string, signal: AbortSignal) {
    const { files } = releaseFolders(volumes.path(facts.appId), release)
    const still = standstill({ engine: host.engine, turns: host.turns, hostId }, facts.appId)
    const { body, made } = snapshots.make({ files, facts, ...still, signal })
    const ends = [store.put(segmentId, body, { signal }), made] as const
    try {
      const [stored, told] = await Promise.all(ends)
      return { stored, told }
    } finally {
      await Promise.allSettled(ends)
    }
  }

  /** What lies in the store is read whole: only what reads back as it was made is a snapshot. */
  async function readBack(segmentId: string, told: MadeSnapshot, signal: AbortSignal): Promise<void> {
    const archive = await store.open(segmentId)
    try {
      const read = await snapshots.verify(archive, signal)
      if (read.digest !== told.digest)
        throw new SnapshotCorrupt('The stored archive holds other files than were copied.')
    } catch (error) {
      if (!(error instanceof SnapshotCorrupt)) throw error
      throw ApplicationFailure.retryable(`The archive did not read back: ${error.message}`, 'SNAPSHOT_FAILED')
    } finally {
      await archive.close()
    }
  }

  /** One attempt, from what the archive is to say to the archive that was read back. */
  async function take(release: Release, operationId: string, signal: AbortSignal): Promise<StoredSnapshot> {
    const [app, row] = await Promise.all([loadApp(db, release.appId), findSnapshotByOperation(db, operationId)])
    if (!app || !row) throw refusal('SNAPSHOT_FAILED', 'The application was deleted.')
    const mine = fenced(db)
    const belongings = { config: configOf(app), variablesVersion: app.variables_version }
    await mine(operationId, trx => recordSnapshotContext(trx, row.id, belongings))
    await volumes.ensure(release.appId, release.diskMb, host.sharedUid ?? release.uid, 'before')
    const segmentId = await segments.allocateSegment(db)
    const fresh = setInterval(
      () => void segments.renewAllocation(db, segmentId).catch(ignoreError('the next interval tries again')),
      drawAgainMs,
    )
    try {
      await mine(operationId, trx => recordStep(trx, operationId, 'copying files'))
      const { stored, told } = await copy(factsOf(row, belongings), release.number, segmentId, signal)
      await mine(operationId, trx => recordStep(trx, operationId, 'reading the archive back'))
      await readBack(segmentId, told, signal)
      return { segmentId, size: stored.size, sha256: stored.sha256, digest: told.digest }
    } catch (error) {
      await segments.markSegmentForDeletion(db, segmentId).catch(ignoreError('the sweep finds it by its age'))
      throw error
    } finally {
      clearInterval(fresh)
    }
  }

  return hosted({
    /** Ends when its host's place for snapshots is this operation's. */
    async awaitSnapshotPlace(asked: StepOf, operationId: string): Promise<void> {
      await begin('awaitSnapshotPlace', { ...asked, operationId })
      await places.wait({ hostId, operationId }, cancellationSignal())
    },

    /**
     * Makes the archive of an application's files and reads it back. Each attempt has a body of its own in the object store; those
     * that nothing refers to in the end are swept. Whoever has lost the host's place ends with PlaceLost (policy/apps/claims.ts).
     */
    async takeSnapshot(asked: StepOf, operationId: string): Promise<StoredSnapshot> {
      const release = (await begin('takeSnapshot', { ...asked, operationId })).served()
      const place = { hostId, operationId }
      return places.holding(place, cancellationSignal(), signal => take(release, operationId, signal))
    },
  })
}

function factsOf(row: SnapshotRow, belongings: { config: object; variablesVersion: number }): SnapshotFacts {
  return {
    appId: row.target_id,
    name: row.name,
    createdAt: row.created_at.toISOString(),
    variablesVersion: belongings.variablesVersion,
    configuration: { ...belongings.config },
  }
}
