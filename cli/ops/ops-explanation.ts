import { healthActor } from '../../db/apps/app-health.ts'
import type { DeploymentState } from '../../db/deploys/deployments.ts'
import type { DatabaseOperationKind } from '../../db/operations/operations.ts'
import type { OperationStory } from '../../db/operations/operator.ts'
import { cancellable, wayAgain } from '../../db/operations/operator-acts.ts'
import type { SnapshotRow } from '../../db/snapshots/snapshots.ts'
import { healthOf } from '../../policy/hosts/health-checks.ts'
import { nextBringBack } from '../../policy/hosts/reconciliation.ts'
import { relay } from '../../policy/installation/relay.ts'
import { counted, oneLine } from '../terminal/printable.ts'
import { age, aligned, clock, lineOf, since, sourceOf } from './ops-words.ts'
import { slotWaits } from './slot-waits.ts'

/** A wake-up that takes longer than this is reported. */
const claimSeconds = 10

/** What Temporal reports about the lane of an application or a database. */
export interface LaneState {
  workflowId: string
  /** RUNNING, COMPLETED, ... , `none` if it never ran here, `unknown` if Temporal does not answer. */
  status: string
  /** Failed attempts at its workflow task. */
  failedTasks: number
  /** Its page in the web UI, if there is one. */
  url: string | null
}

const nextSteps: Record<DeploymentState, string> = {
  pending: 'the sources are fetched or unpacked and the dependencies installed, alongside the running version',
  clone: 'dependencies are installed, then the files are placed',
  commit: 'the new version is started and must pass its health gate',
  restarting: 'once the new version passes its health gate, requests go to it and the old one is retired',
  success: 'nothing; it is running',
  error: 'nothing; the previous version is unchanged',
}

/** Everything an operator needs to know about an operation, in words. Ages are computed from `now`. */
export function explanation(story: OperationStory, lane: LaneState, now: Date): string {
  const { operation, deployment, snapshot, app, database, events, acts, retries, logTail } = story
  const what = wordOf(story)
  const sections: [string, string[]][] = [
    ['', [headline(story), `  ${verdict(story, now)}`]],
    ['Why it waits', holds(story, lane, now)],
    ['What comes next', next(story, now)],
    [
      'What it is',
      aligned([
        ['operation', operation.id],
        ['deployment', deployment && `${deployment.id} (release ${deployment.release})`],
        ['source', deployment && sourceOf(deployment)],
        ['dependencies', deployment?.dependencies && oneLine(deployment.dependencies)],
        ['snapshot', snapshot && snapshotOf(snapshot)],
        [what, `${(app ?? database)?.name ?? 'deleted'} (${operation.target_id})`],
        ['host', (app ?? database)?.host_id],
        ['requested by', operation.actor],
        ['because', reasonOf(operation)],
        ['health', app && healthWords(app, now)],
        ['lane', `${lane.workflowId}, ${lane.status}${lane.url ? `, ${lane.url}` : ''}`],
      ]),
    ],
    ['What happened', aligned(momentsOf(story).map(([at, what]) => [clock(at), what]))],
    ['Who did what', aligned(acts.map(({ at, actor, act }) => [clock(at), `${actor}: ${act}`]))],
    ['Retried as', retries.map(other => lineOf(other, now))],
    [`Last failure of this ${what}`, lastFailure(story, now)],
    ['Last lines of its log', events.length > 0 && logTail.length === 0 ? ['(empty)'] : logTail.map(oneLine)],
  ]
  return sections
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => (title ? [`${title}:`, ...lines.map(line => `  ${line}`)] : lines).join('\n'))
    .join('\n\n')
}

export function headline({
  operation,
  deployment,
  app,
  database,
}: Pick<OperationStory, 'operation' | 'deployment' | 'app' | 'database'>): string {
  const name = (app ?? database)?.name ?? operation.target_id
  const of = operation.target_type === 'app' ? name : `database ${name}`
  return oneLine(`${operation.kind} of ${of}${deployment ? `: ${sourceOf(deployment)}` : ''}`)
}

/** Why a host has requested a restart for the health of its application; null for other operations. */
export const reasonOf = ({ actor, input }: OperationStory['operation']): string | null =>
  actor === healthActor && typeof input.reason === 'string' ? input.reason : null

/** The health of an application that is checked, in words; null for others. */
function healthWords(app: NonNullable<OperationStory['app']>, now: Date): string | null {
  const health = healthOf(app)
  if (!health) return null
  const { path, status, reason, since: at } = health
  return `${status}${at ? ` since ${age(new Date(at), now)}` : ''} (${reason ?? path})`
}

const wordOf = ({ operation }: Pick<OperationStory, 'operation'>): string =>
  operation.target_type === 'app' ? 'application' : 'database'

/** The state in one sentence. */
export function verdict({ operation, deployment }: OperationStory, now: Date): string {
  const { state, cancel_requested_at: cancelledAt, cancel_requested_by: by } = operation
  if (state === 'accepting') return `NOT CONFIRMED, and perhaps never: stored ${since(operation.created_at, now)}.`
  if (state === 'queued') return `WAITING, queued ${since(operation.created_at, now)}.`
  if (state === 'running') {
    const doing = operation.step ?? (deployment && `deployment is in state ${deployment.state}`)
    const end = cancelledAt
      ? ` ${by} requested its cancellation ${since(cancelledAt, now)}, which is not confirmed yet.`
      : ''
    return `RUNNING, started ${since(operation.started_at ?? operation.created_at, now)}${doing ? `: ${doing}` : ''}.${end}`
  }
  const ended = `${since(operation.finished_at ?? operation.created_at, now)}`
  if (deployment?.superseded_by) return `SUPERSEDED ${ended} by deployment ${deployment.superseded_by}.`
  const code = deployment?.code ?? operation.code
  const message = deployment?.message ?? operation.message
  const words = {
    success: 'SUCCEEDED',
    error: 'FAILED',
    expired: 'EXPIRED before it started',
    cancelled: 'CANCELLED',
  }[state]
  const why = [code, message].filter(Boolean).join(': ')
  return oneLine(`${words} ${ended}${why ? `: ${why}` : '.'}`)
}

/** Why the operation does not proceed right now, the most immediate reason first. */
export function holds(story: OperationStory, lane: LaneState, now: Date): string[] {
  const { operation, deployment, before, host } = story
  if (!['queued', 'running'].includes(operation.state)) return []
  const reasons: string[] = []
  if (deployment?.waiting_for) reasons.push(deployment.waiting_for)
  reasons.push(...slotWaits(story, now))
  const copying = before.find(other => other.kind === 'snapshot' && other.state === 'running')
  if (copying && deployment)
    reasons.push(`It switches versions only after the snapshot in progress: ${lineOf(copying, now)}`)
  if (operation.state === 'queued') {
    reasons.push(`It is number ${before.length + 1} in the queue of its ${wordOf(story)}.`)
    reasons.push(...before.map(other => `Before it: ${lineOf(other, now)}`))
  }
  if (!(story.app ?? story.database)) reasons.push(`Its ${wordOf(story)} was deleted, so it will fail.`)
  if (host && !host.reachable)
    reasons.push(
      host.last_seen_at.getTime() === 0
        ? `Host ${host.id} has left; the steps wait until it is back.`
        : `Host ${host.id} is silent, last seen ${since(host.last_seen_at, now)}; the steps wait for it. If the host is lost: berth hosts forget ${host.id}`,
    )
  const age = (now.getTime() - operation.created_at.getTime()) / 1000
  if (lane.status === 'unknown')
    reasons.push('Temporal does not answer. Nothing is lost, but nothing proceeds until it does.')
  else if (lane.failedTasks > 0)
    reasons.push(
      `Its lane is stuck: its workflow task failed ${lane.failedTasks} times. After ${relay.stuckTasks} failures the worker restarts it; see: berth logs worker`,
    )
  else if (lane.status !== 'RUNNING' && age > claimSeconds)
    reasons.push(`Its lane is not running (${lane.status}). The worker wakes lanes; see: berth ps, berth logs worker`)
  else if (operation.state === 'queued' && before.length === 0 && age > claimSeconds)
    reasons.push('It is next in the queue, but its lane has not claimed it; see: berth logs worker')
  return reasons.length > 0 ? reasons : ['nothing; it is in progress']
}

function next(story: OperationStory, now: Date): string[] {
  const { operation, deployment, app, hostTries } = story
  const { id, state, kind } = operation
  if (state === 'success') return []
  if (state === 'accepting') return ['within minutes it is queued, or undone as if it had never been requested']
  if (state === 'queued' || state === 'running') {
    const step = deployment && nextSteps[deployment.state]
    return [
      ...(step ? [step] : []),
      ...(cancellable.includes(kind) ? [`to cancel it: berth ops cancel ${id.slice(0, 8)}`] : []),
    ]
  }
  if (operation.target_type === 'database') return afterDatabaseFailure(story)
  if (!app) return ['nothing; its application was deleted, and can be uploaded again']
  if (app.undo_failed_by === id)
    return [
      'The application stays marked as incompletely rolled back until a deploy or a restore of a snapshot succeeds.',
      `once you have repaired it by hand: berth ops clear ${id.slice(0, 8)}`,
    ]
  if (kind === 'snapshot') return ['nothing; a new snapshot can be requested at any time']
  if (!wayAgain(kind, deployment))
    return [`nothing; its application is as it was, and a ${kind} can be requested again`]
  const again = `to retry it: berth ops retry ${id.slice(0, 8)}`
  if (hostTries && kind === 'start') return [nextTryOfHost(hostTries, now), again]
  return [`nothing; ${again}`]
}

/** What is true, and possible, after an operation of a database that did not succeed. */
function afterDatabaseFailure({ operation: { id, kind: name }, database }: OperationStory): string[] {
  const kind = name as DatabaseOperationKind
  if (kind === 'create') return ['nothing; what it had created was removed, and its owner can create a database again']
  if (!database) return ['nothing; its database was deleted']
  const state = `how the database is now: berth databases explain ${database.id.slice(0, 8)}`
  const restored: Partial<Record<DatabaseOperationKind, string>> = {
    resize: 'nothing; the database has its earlier memory, and its owner can change it again',
    rotate: 'nothing; the earlier password is valid, and its owner can reset it again',
    certify: 'nothing; its owner can reset the certificate again',
    delete: 'nothing; the database is still there, and its owner can delete it again',
    snapshot: 'nothing; a new snapshot can be requested at any time',
    restore: 'nothing; its owner can request it again',
    undo: 'nothing; the data of the database is unchanged, and an undo can be requested again',
    upgrade: 'nothing; the database has its former image again: remove the cause, then berth databases upgrade',
    drill: 'nothing; the database itself was not touched. Create a new snapshot, then berth databases drill',
  }
  return [restored[kind] ?? `nothing; to retry it: berth ops retry ${id.slice(0, 8)}`, state]
}

/** When the host tries again to start an application that should run: it never gives up. */
function nextTryOfHost({ count, last }: NonNullable<OperationStory['hostTries']>, now: Date): string {
  const at = nextBringBack(count, last)
  const when = at > now ? `at ${at.toISOString().slice(0, 19)}Z at the latest, in ${age(now, at)}` : 'within seconds'
  return `its host has tried ${counted(count, 'time')} to start it again, and tries next ${when}`
}

function snapshotOf({ id, name, state, size }: SnapshotRow): string {
  return `${name}, version ${id}, ${state === 'good' ? `${size} bytes` : state}`
}

function momentsOf({ operation, events }: OperationStory): [Date, string][] {
  const moments: [Date | null, string][] = [
    [operation.created_at, 'queued'],
    [operation.started_at, 'claimed by its lane'],
    ...events
      .filter(({ state }) => state !== 'pending')
      .map(({ at, state, details }): [Date, string] => [
        at,
        [state, details.code, details.message].filter(Boolean).join(', '),
      ]),
    [operation.cancel_requested_at, `${operation.cancel_requested_by} requested its cancellation`],
    [operation.finished_at, `ended: ${operation.state}`],
  ]
  const dated = moments.filter((moment): moment is [Date, string] => moment[0] !== null)
  return dated.sort(([a], [b]) => a.getTime() - b.getTime())
}

function lastFailure({ operation, lastFailure: failed }: OperationStory, now: Date): string[] {
  return failed && operation.state !== 'success' ? [lineOf(failed, now)] : []
}
