import type { OperationLine, OperationStory } from '../../db/operations/operator.ts'
import { healthOf } from '../../policy/hosts/health-checks.ts'
import { holds, type LaneState, reasonOf, verdict } from './ops-explanation.ts'

// What scripts read, key by key: a new column of a table is printed only once it is listed here and in docs/json-output.md.

/** An operation as one entry of a list. */
export function lineView(line: OperationLine) {
  const { id, kind, state, target_type, host_id, deployment_id, deployment_state, source, revision, branch } = line
  const { waiting_for, step, actor, code, message, cancel_requested_at, created_at, started_at, finished_at } = line
  const subject = {
    id,
    kind,
    state,
    ...targetView(target_type, line.app_id, line.app_name),
    host_id,
    deployment_id,
    deployment_state,
    source,
    revision,
    branch,
  }
  const progress = { waiting_for, step, actor, code, message, cancel_requested_at, created_at, started_at, finished_at }
  return { ...subject, ...progress }
}

/** Keys of the application, and of the database, of which one is null. */
function targetView(type: OperationLine['target_type'], id: string, name: string | null) {
  const none = { app_id: null, app_name: null, database_id: null, database_name: null }
  return { ...none, ...(type === 'app' ? { app_id: id, app_name: name } : { database_id: id, database_name: name }) }
}

/** One operation with everything related to it; with `lane` also why it waits. */
export function storyView(story: OperationStory, now: Date, lane?: LaneState) {
  const { events, acts, before, retries, lastFailure, hostTries, slotHolders, snapshotSlots, logTail } = story
  return {
    verdict: verdict(story, now),
    operation: operationView(story.operation),
    deployment: story.deployment && deploymentView(story.deployment),
    snapshot: story.snapshot && snapshotView(story.snapshot),
    app: story.app && { ...subjectView(story.app), health: healthOf(story.app) },
    database: story.database && subjectView(story.database),
    host: story.host && {
      id: story.host.id,
      reachable: story.host.reachable,
      last_seen_at: story.host.last_seen_at,
      tries: hostTries,
    },
    events,
    acts,
    before: before.map(lineView),
    retries: retries.map(lineView),
    last_failure: lastFailure && lineView(lastFailure),
    slot_holders: slotHolders.map(({ id, appId }) => ({ id, app_id: appId })),
    snapshot_slots: snapshotSlots,
    log_tail: logTail,
    ...(lane && {
      holds: holds(story, lane, now),
      lane: { workflow_id: lane.workflowId, status: lane.status, failed_tasks: lane.failedTasks, url: lane.url },
    }),
  }
}

function subjectView({ id, name, status, owner_id }: NonNullable<OperationStory['app'] | OperationStory['database']>) {
  return { id, name, status, owner_id }
}

function operationView(operation: OperationStory['operation']) {
  const { id, kind, state, target_type, target_id, owner_id, actor, step, code, message, retry_of } = operation
  const { cancel_requested_at, cancel_requested_by, created_at, started_at, finished_at } = operation
  const cancellation = { cancel_requested_at, cancel_requested_by }
  return {
    id,
    kind,
    state,
    app_id: target_type === 'app' ? target_id : null,
    database_id: target_type === 'database' ? target_id : null,
    owner_id,
    actor,
    reason: reasonOf(operation),
    step,
    code,
    message,
    retry_of,
    ...cancellation,
    created_at,
    started_at,
    finished_at,
  }
}

function deploymentView(deployment: NonNullable<OperationStory['deployment']>) {
  const { id, state, trigger, source, release, revision, branch, code, message } = deployment
  const { dependencies, no_cache, waiting_for, superseded_by, created_at, finished_at } = deployment
  const progress = { waiting_for, superseded_by, created_at, finished_at }
  return { id, state, trigger, source, release, revision, branch, code, message, dependencies, no_cache, ...progress }
}

function snapshotView({
  id,
  name,
  origin,
  state,
  size,
  created_at,
  finished_at,
}: NonNullable<OperationStory['snapshot']>) {
  return { id, name, origin, state, size: size === null ? null : Number(size), created_at, finished_at }
}
