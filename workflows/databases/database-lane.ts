import { continueAsNew, upsertSearchAttributes } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { attributes } from '../attributes.ts'
import { type ConcurrentOperation, runLane } from '../lane.ts'
import type { Exclusive } from '../locks.ts'
import { renewCertificate, resizeDatabase, rotatePassword } from './change-database.ts'
import { createDatabase } from './create-database.ts'
import { deleteDatabase, startDatabase, stopDatabase } from './database-power.ts'
import { type DatabaseHost, databaseHostOf, records } from './database-steps.ts'
import { restoreDatabase } from './restore-database.ts'
import { drillDatabase, snapshotDatabase } from './snapshot-database.ts'
import { undoRestore } from './undo-restore.ts'
import { upgradeDatabase } from './upgrade-database.ts'

export interface DatabaseLaneInput {
  databaseId: string
  /** How long an idle lane stays, in seconds. */
  idleSeconds: number
}

type Kind = DatabaseOperation['kind']
/** Kinds that run alongside the others. */
type ConcurrentKind = 'snapshot' | 'restore' | 'drill'
type Story = (operation: DatabaseOperation, host: DatabaseHost) => Promise<void>

const stories: Record<Exclude<Kind, ConcurrentKind>, Story> = {
  create: createDatabase,
  start: startDatabase,
  stop: stopDatabase,
  resize: resizeDatabase,
  rotate: rotatePassword,
  certify: renewCertificate,
  delete: deleteDatabase,
  undo: undoRestore,
  upgrade: upgradeDatabase,
}

const concurrentStories: Record<ConcurrentKind, (...args: [...Parameters<Story>, Exclusive]) => Promise<void>> = {
  snapshot: snapshotDatabase,
  restore: restoreDatabase,
  drill: drillDatabase,
}

const isConcurrent = (kind: Kind): kind is ConcurrentKind => kind in concurrentStories

/** These start or end the engine that a snapshot reads: it ends, and they do not wait for it. */
const endsSnapshots: readonly Kind[] = ['start', 'stop', 'resize', 'delete', 'undo', 'upgrade']

/**
 * The operations of one database (`runLane`): snapshots are taken and tried alongside the others, and restores make their copy alongside
 * them.
 */
export async function databaseLane(lane: DatabaseLaneInput): Promise<void> {
  await runLane<DatabaseOperation>({
    idleSeconds: lane.idleSeconds,
    claim: underWay => records.claimNextOfDatabase(lane.databaseId, { underWay }),
    toCancel: () => records.databaseOperationsToEnd(lane.databaseId),
    work(operation, exclusive) {
      const host = databaseHostOf(operation)
      const { kind } = operation
      if (isConcurrent(kind))
        return { story: () => concurrentStories[kind](operation, host, exclusive), alongside: true }
      return { story: () => stories[kind](operation, host), alongside: false }
    },
    makeWay: (kind, concurrent) => (endsSnapshots.includes(kind) ? endSnapshots(concurrent, kind) : null),
    show({ kind, databaseId, hostId }) {
      upsertSearchAttributes(attributes({ hostId, operationKind: kind }))
      return `database ${databaseId} on host ${hostId}`
    },
    finish: records.finish,
    startAnew: () => continueAsNew<typeof databaseLane>(lane),
  })
}

async function endSnapshots(concurrent: readonly ConcurrentOperation<Kind>[], by: Kind): Promise<void> {
  for (const { kind, scope, ended } of concurrent) {
    // It has nothing of the engine, so that nothing needs to wait for its end, perhaps at another host.
    if (kind === 'drill' && by === 'delete') scope.cancel()
    if (kind !== 'snapshot') continue
    scope.cancel()
    await ended
  }
}
