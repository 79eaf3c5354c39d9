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
import { appFreeze } from './snapshots/app-freeze.ts'
import { SnapshotCorrupt, type SnapshotFacts, type SnapshotTotals } from './snapshots/port.ts'
import { snapshotSlots } from './snapshots/snapshot-slots.ts'
import { fenced } from './steps/claims.ts'
import { guardedSteps } from './steps/guarded-steps.ts'

export type AppSnapshotActivities = ReturnType<typeof appSnapshotActivities>

export type AppSnapshotOptions = Pick<
  AppHostOptions,
  | 'db'
  | 'engine'
  | 'volumes'
  | 'store'
  | 'snapshots'
  | 'locks'
  | 'traits'
  | 'sharedUid'
  | 'confirm'
  | keyof DecisionOptions
>

/** Until the archive is recorded, its allocation is renewed at this pace, so that the sweep spares it. */
const renewMs = 5 * 60_000

/** The steps of a container host for the snapshots of its applications. */
export function appSnapshotActivities(host: AppSnapshotOptions) {
  const { db, store, snapshots, volumes } = host
  const slots = snapshotSlots(db)
  const { begin } = guardedSteps(host)
  const hostId = host.traits.id

  /** Copies the application's files into the object store. */
  async function copy(facts: SnapshotFacts, release: number, segmentId: string, signal: AbortSignal) {
    const { files } = releaseFolders(volumes.path(facts.appId), release)
    const freeze = appFreeze({ engine: host.engine, locks: host.locks, hostId }, facts.appId)
    const { body, totals } = snapshots.make({ files, facts, ...freeze, signal })
    const ends = [store.put(segmentId, body, { signal }), totals] as const
    try {
      const [stored, archive] = await Promise.all(ends)
      return { stored, archive }
    } finally {
      await Promise.allSettled(ends)
    }
  }

  /** Reads the stored archive whole: only what reads back as it was written is a snapshot. */
  async function readBack(segmentId: string, { digest }: SnapshotTotals, signal: AbortSignal): Promise<void> {
    const archive = await store.open(segmentId)
    try {
      const read = await snapshots.verify(archive, signal)
      if (read.digest !== digest) throw new SnapshotCorrupt('The stored archive holds other files than were copied.')
    } catch (error) {
      if (!(error instanceof SnapshotCorrupt)) throw error
      throw ApplicationFailure.retryable(`The archive did not read back: ${error.message}`, 'SNAPSHOT_FAILED')
    } finally {
      await archive.close()
    }
  }

  /** One attempt, from the facts in the archive to the archive that was read back. */
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
      renewMs,
    )
    try {
      await mine(operationId, trx => recordStep(trx, operationId, 'copying files'))
      const { stored, archive } = await copy(factsOf(row, belongings), release.number, segmentId, signal)
      await mine(operationId, trx => recordStep(trx, operationId, 'reading the archive back'))
      await readBack(segmentId, archive, signal)
      return { segmentId, size: stored.size, sha256: stored.sha256, digest: archive.digest }
    } catch (error) {
      await segments.markSegmentForDeletion(db, segmentId).catch(ignoreError('the sweep finds it by its age'))
      throw error
    } finally {
      clearInterval(fresh)
    }
  }

  return hosted({
    /** Resolves once this operation holds the snapshot slot of its host. */
    async awaitSnapshotPlace(input: StepOf, operationId: string): Promise<void> {
      await begin('awaitSnapshotPlace', { ...input, operationId })
      await slots.wait({ hostId, operationId }, cancellationSignal())
    },

    /**
     * Writes the archive of an application's files and reads it back. Each attempt has its own segment in the object store;
     * unreferenced ones are swept. An attempt that loses the host's slot ends with PlaceLost (policy/apps/claims.ts).
     */
    async takeSnapshot(input: StepOf, operationId: string): Promise<StoredSnapshot> {
      const release = (await begin('takeSnapshot', { ...input, operationId })).served()
      const slot = { hostId, operationId }
      return slots.holding(slot, cancellationSignal(), signal => take(release, operationId, signal))
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
