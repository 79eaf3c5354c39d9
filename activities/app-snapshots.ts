import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { configOf } from '../db/apps/app-configuration.ts'
import { loadApp } from '../db/apps/apps.ts'
import { recordStep } from '../db/operations/operations.ts'
import {
  findSnapshotByOperation,
  recordSnapshotContext,
  type SnapshotRow,
  type StoredSnapshot,
} from '../db/snapshots/snapshots.ts'
import { hosted, refusal } from './failures.ts'
import type { AppHostOptions } from './hosts/app-host-options.ts'
import type { DecisionOptions } from './releases/decision.ts'
import { releaseFolders } from './releases/files.ts'
import type { Release, StepOf } from './releases/release.ts'
import { appFreeze } from './snapshots/app-freeze.ts'
import { FreezeTooLong, type SnapshotFacts, SnapshotRefused } from './snapshots/port.ts'
import type { SnapshotSlots } from './snapshots/snapshot-slots.ts'
import { storeArchive } from './snapshots/stored-archive.ts'
import { fenced } from './steps/claims.ts'
import { guardedSteps } from './steps/guarded-steps.ts'

export type AppSnapshotActivities = ReturnType<typeof appSnapshotActivities>

export type AppSnapshotOptions = { slots: SnapshotSlots } & Pick<
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

/** The steps of a container host for the snapshots of its applications. */
export function appSnapshotActivities(host: AppSnapshotOptions) {
  const { db, volumes, slots } = host
  const { begin } = guardedSteps(host)
  const hostId = host.traits.id

  /** One attempt, from the facts in the archive to the archive that was read back. */
  async function take(release: Release, operationId: string, signal: AbortSignal): Promise<StoredSnapshot> {
    const [app, row] = await Promise.all([loadApp(db, release.appId), findSnapshotByOperation(db, operationId)])
    if (!app || !row) throw refusal('SNAPSHOT_FAILED', 'The application was deleted.')
    const mine = fenced(db)
    const belongings = { config: configOf(app), variablesVersion: app.variables_version }
    await mine(operationId, trx => recordSnapshotContext(trx, row.id, belongings))
    await volumes.ensure(release.appId, release.diskMb, host.sharedUid ?? release.uid, 'before')
    const { files } = releaseFolders(volumes.path(release.appId), release.number)
    const freeze = appFreeze({ engine: host.engine, locks: host.locks, hostId }, release.appId)
    const request = { files, facts: factsOf(row, belongings), ...freeze, signal }
    const step = (words: string) => mine(operationId, trx => recordStep(trx, operationId, words))
    return storeArchive(host, request, { step })
  }

  return hosted({
    /** Resolves once this operation holds a snapshot slot of its host. */
    async awaitSnapshotPlace(input: StepOf, operationId: string): Promise<void> {
      const { ownerId } = await begin('awaitSnapshotPlace', { ...input, operationId })
      await slots.wait({ hostId, operationId, ownerId }, cancellationSignal())
    },

    /**
     * Writes the archive of an application's files and reads it back. Each attempt has its own segment in the object store;
     * unreferenced ones are swept. An attempt that loses the host's slot ends with PlaceLost (policy/apps/claims.ts).
     */
    async takeSnapshot(input: StepOf, operationId: string): Promise<StoredSnapshot> {
      const release = (await begin('takeSnapshot', { ...input, operationId })).served()
      const slot = { hostId, operationId }
      return slots.holding(slot, cancellationSignal(), signal =>
        take(release, operationId, signal).catch(error => {
          // Once more, and not the whole copy again and again: a program that changes so much will do so again.
          throw error instanceof FreezeTooLong && activityInfo().attempt > 1
            ? new SnapshotRefused(error.message)
            : error
        }),
      )
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
