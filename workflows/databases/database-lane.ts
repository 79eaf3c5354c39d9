import {
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { attributes } from '../attributes.ts'
import { failureOf } from '../failures.ts'
import { type Exclusive, oneAtATime } from '../turns.ts'
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

/** Something was queued for this database, or a cancellation was requested. */
const wake = defineSignal('wake')

type Kind = DatabaseOperation['kind']
/** Kinds that run alongside the others. */
type ConcurrentKind = 'snapshot' | 'restore' | 'drill'
type Story = (operation: DatabaseOperation, host: DatabaseHost) => Promise<void>

/** An operation that runs alongside the others, and can be cancelled. */
interface ConcurrentOperation {
  kind: Kind
  scope: CancellationScope
  ended: Promise<void>
}

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
 * Runs the operations of one database, oldest first. They never overlap, except that snapshots are taken and tried alongside the others, and restores
 * make their copy alongside them. The lane ends after being idle for a while; later operations start it again.
 */
export async function databaseLane(lane: DatabaseLaneInput): Promise<void> {
  let wakeUps = 0
  const concurrent = new Map<string, ConcurrentOperation>()
  const cancellable = new Map<string, CancellationScope>()
  const exclusive = oneAtATime()

  /** Called at every wake-up and when an operation starts, because the request to cancel it may have come before. */
  async function cancelRequested(): Promise<void> {
    if (cancellable.size === 0) return
    for (const id of await records.databaseOperationsToEnd(lane.databaseId)) cancellable.get(id)?.cancel()
  }

  setHandler(wake, () => {
    wakeUps++
    return cancelRequested()
  })

  for (;;) {
    const seen = wakeUps
    // Claimed only when it can run: until then its caller can still get the answer that it will never run.
    if (await exclusive(runNext)) {
      if (workflowInfo().continueAsNewSuggested && concurrent.size === 0) await continueAsNew<typeof databaseLane>(lane)
      continue
    }
    await condition(() => wakeUps > seen, lane.idleSeconds * 1000)
    if (wakeUps === seen && concurrent.size === 0) return
  }

  /** False when nothing waits. A concurrent operation is only started here: it waits for exclusive access when it needs it. */
  async function runNext(): Promise<boolean> {
    const underWay = [...concurrent.values()].map(({ kind }) => kind)
    const operation: DatabaseOperation | null = await records.claimNextOfDatabase(lane.databaseId, { underWay })
    if (!operation) return false
    const { id, kind } = operation
    const scope = new CancellationScope()
    const host = databaseHostOf(operation)
    if (isConcurrent(kind)) {
      const story = () => concurrentStories[kind](operation, host, exclusive)
      cancellable.set(id, scope)
      const ended = run(operation, scope, story).finally(() => {
        cancellable.delete(id)
        concurrent.delete(id)
        wakeUps++
      })
      concurrent.set(id, { kind, scope, ended })
      void cancelRequested()
      return true
    }
    if (endsSnapshots.includes(kind)) await endSnapshots([...concurrent.values()], kind)
    // Only what leaves nothing behind can be given up: other operations end within seconds.
    if (kind === 'create') {
      cancellable.set(id, scope)
      void cancelRequested()
    }
    await run(operation, scope, () => stories[kind](operation, host))
    cancellable.delete(id)
    return true
  }
}

async function endSnapshots(concurrent: readonly ConcurrentOperation[], by: Kind): Promise<void> {
  for (const { kind, scope, ended } of concurrent) {
    // It has nothing of the engine, so that nothing needs to wait for its end, perhaps at another host.
    if (kind === 'drill' && by === 'delete') scope.cancel()
    if (kind !== 'snapshot') continue
    scope.cancel()
    await ended
  }
}

/** Shows operators what runs, and records a failure that the story itself did not. */
async function run(operation: DatabaseOperation, scope: CancellationScope, story: () => Promise<void>): Promise<void> {
  const { id, kind, databaseId, hostId } = operation
  upsertSearchAttributes(attributes({ hostId, operationKind: kind }))
  setCurrentDetails(`${kind} of database ${databaseId} on host ${hostId}, operation ${id}`)
  await scope
    .run(story)
    .catch(error => CancellationScope.nonCancellable(() => records.finish(id, { state: 'error', ...failureOf(error) })))
  setCurrentDetails(`last was ${kind}, operation ${id}`)
}
