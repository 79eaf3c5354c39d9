import type { DeploymentState } from '../../db/deploys/deployments.ts'
import type { OperationKind } from '../../db/operations/operations.ts'
import type { OperationStory } from '../../db/operations/operator.ts'
import type { SnapshotRow } from '../../db/snapshots/snapshots.ts'
import { nextBringBack } from '../../policy/hosts/reconciliation.ts'
import { relay } from '../../policy/installation/relay.ts'
import { oneLine } from '../terminal/printable.ts'
import { age, aligned, clock, lineOf, since, sourceOf } from './ops-words.ts'

/** A wake-up that took longer than this is worth a word. */
const claimSeconds = 10

/** What Temporal says of an application's lane. */
export interface LaneState {
  workflowId: string
  /** RUNNING, COMPLETED, ... , `none` when it never ran here, `unknown` when Temporal does not answer. */
  status: string
  /** How often its workflow task was tried in vain. */
  failedTasks: number
  /** Its page in the web UI, where there is one. */
  url: string | null
}

const nextSteps: Record<DeploymentState, string> = {
  pending: 'the sources are fetched or unpacked and dependencies installed, beside the running version',
  clone: 'dependencies are installed, then the files are placed',
  commit: 'the new version is started and has to pass its health gate',
  restarting: 'requests go to the new version once it passes its health gate, then the old one is retired',
  success: 'nothing; it serves',
  error: 'nothing; what ran before stays as it was',
}

/** Everything an operator needs to know of an operation, in words. `now` makes the ages. */
export function explanation(story: OperationStory, lane: LaneState, now: Date): string {
  const { operation, deployment, snapshot, app, events, acts, retries, logTail } = story
  const sections: [string, string[]][] = [
    ['', [headline(story), `  ${verdict(story, now)}`]],
    ['What holds it', holds(story, lane, now)],
    ['What comes next', next(story, now)],
    [
      'What it is',
      aligned([
        ['operation', operation.id],
        ['deployment', deployment && `${deployment.id} (release ${deployment.release})`],
        ['source', deployment && sourceOf(deployment)],
        ['snapshot', snapshot && snapshotOf(snapshot)],
        ['application', `${app?.name ?? 'deleted'} (${operation.target_id})`],
        ['host', app?.host_id],
        ['asked for by', operation.actor],
        ['lane', `${lane.workflowId}, ${lane.status}${lane.url ? `, ${lane.url}` : ''}`],
      ]),
    ],
    ['What happened', aligned(happened(story).map(([at, what]) => [clock(at), what]))],
    ['Who did what', aligned(acts.map(({ at, actor, act }) => [clock(at), `${actor}: ${act}`]))],
    ['Tried again as', retries.map(other => lineOf(other, now))],
    ['What failed last on this application', lastFailure(story, now)],
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
}: Pick<OperationStory, 'operation' | 'deployment' | 'app'>): string {
  const of = app?.name ?? operation.target_id
  return oneLine(`${operation.kind} of ${of}${deployment ? `: ${sourceOf(deployment)}` : ''}`)
}

/** One sentence: how it stands. */
export function verdict({ operation, deployment }: OperationStory, now: Date): string {
  const { state, cancel_requested_at: asked, cancel_requested_by: by } = operation
  if (state === 'accepting') return `NOT ACCEPTED yet, or never: stored ${since(operation.created_at, now)}.`
  if (state === 'queued') return `WAITS since ${since(operation.created_at, now)}.`
  if (state === 'running') {
    const doing = operation.step ?? (deployment && `deployment is in state ${deployment.state}`)
    const end = asked ? ` ${by} asked to cancel it ${since(asked, now)}; its end is not confirmed yet.` : ''
    return `RUNS since ${since(operation.started_at ?? operation.created_at, now)}${doing ? `: ${doing}` : ''}.${end}`
  }
  const ended = `${since(operation.finished_at ?? operation.created_at, now)}`
  if (deployment?.superseded_by) return `SUPERSEDED ${ended} by deployment ${deployment.superseded_by}.`
  const code = deployment?.code ?? operation.code
  const message = deployment?.message ?? operation.message
  const words = {
    success: 'SUCCEEDED',
    error: 'FAILED',
    expired: 'EXPIRED before it was begun',
    cancelled: 'CANCELLED',
  }[state]
  const why = [code, message].filter(Boolean).join(': ')
  return oneLine(`${words} ${ended}${why ? `: ${why}` : '.'}`)
}

/** Why it does not go on by itself right now, the nearest reason first. */
export function holds(
  { operation, deployment, before, app, host, slotHolders }: OperationStory,
  lane: LaneState,
  now: Date,
): string[] {
  if (!['queued', 'running'].includes(operation.state)) return []
  const reasons: string[] = []
  if (deployment?.waiting_for) reasons.push(deployment.waiting_for)
  if (slotHolders.length > 0) {
    const holders = slotHolders.map(({ id, appId }) => `operation ${id.slice(0, 8)} of application ${appId}`)
    reasons.push(`building now: ${holders.join(', ')}`)
  }
  const copying = before.find(other => other.kind === 'snapshot' && other.state === 'running')
  if (copying && deployment)
    reasons.push(`It changes versions only after the snapshot under way: ${lineOf(copying, now)}`)
  if (operation.state === 'queued') {
    reasons.push(`It is number ${before.length + 1} in the queue of its application.`)
    reasons.push(...before.map(other => `before it: ${lineOf(other, now)}`))
  }
  if (!app) reasons.push('Its application is deleted; it will end as such.')
  if (host && !host.reachable)
    reasons.push(
      host.last_seen_at.getTime() === 0
        ? `Host ${host.id} has left; its steps wait until it is back.`
        : `Host ${host.id} is silent since ${since(host.last_seen_at, now)}; its steps wait for it. If it is gone for good: berth hosts forget ${host.id}`,
    )
  const age = (now.getTime() - operation.created_at.getTime()) / 1000
  if (lane.status === 'unknown')
    reasons.push('Temporal does not answer; nothing is lost, and nothing moves until it does.')
  else if (lane.failedTasks > 0)
    reasons.push(
      `Its lane is stuck: its workflow task failed ${lane.failedTasks} times. After ${relay.stuckTasks} the worker begins it anew; see: berth logs worker`,
    )
  else if (lane.status !== 'RUNNING' && age > claimSeconds)
    reasons.push(`Its lane does not run (${lane.status}). The worker wakes lanes; see: berth ps, berth logs worker`)
  else if (operation.state === 'queued' && before.length === 0 && age > claimSeconds)
    reasons.push('Nothing stands before it, yet its lane has not taken it: see berth logs worker')
  return reasons.length > 0 ? reasons : ['nothing; it is being worked on']
}

function next({ operation, deployment, app, hostTries }: OperationStory, now: Date): string[] {
  const { id, state, kind } = operation
  if (state === 'success') return []
  if (state === 'queued' || state === 'running') {
    const step = deployment && nextSteps[deployment.state]
    return [
      ...(step ? [step] : []),
      ...(endable.includes(kind) ? [`to end it: berth ops cancel ${id.slice(0, 8)}`] : []),
    ]
  }
  if (!app) return ['nothing; its application is gone, and can be uploaded again']
  if (app.undo_failed_by === id)
    return [
      'Its application stays marked as half changed until a deploy or a restore of a snapshot succeeds.',
      `once you have looked after it by hand: berth ops clear ${id.slice(0, 8)}`,
    ]
  if (kind === 'snapshot') return ['nothing by itself; a new snapshot can be asked for at any time']
  const again = `to try it again: berth ops retry ${id.slice(0, 8)}`
  if (hostTries && kind === 'start') return [hostTriesAgain(hostTries, now), again]
  return [`nothing by itself; ${again}`]
}

/** The row says that it runs and the host finds that it does not: it does not give up. */
function hostTriesAgain({ count, last }: NonNullable<OperationStory['hostTries']>, now: Date): string {
  const at = nextBringBack(count, last)
  const when = at > now ? `at ${at.toISOString().slice(0, 19)}Z at the latest, in ${age(now, at)}` : 'within seconds'
  return `its host has tried ${count} ${count === 1 ? 'time' : 'times'} to bring it back, and tries again by itself ${when}`
}

const endable: readonly OperationKind[] = ['deploy', 'restore', 'snapshot']

function snapshotOf({ id, name, state, size }: SnapshotRow): string {
  return `${name}, version ${id}, ${state === 'good' ? `${size} bytes` : state}`
}

function happened({ operation, events }: OperationStory): [Date, string][] {
  const moments: [Date | null, string][] = [
    [operation.created_at, 'queued'],
    [operation.started_at, 'taken up by its lane'],
    ...events
      .filter(({ state }) => state !== 'pending')
      .map(({ at, state, details }): [Date, string] => [
        at,
        [state, details.code, details.message].filter(Boolean).join(', '),
      ]),
    [operation.cancel_requested_at, `${operation.cancel_requested_by} asked to cancel it`],
    [operation.finished_at, `ended: ${operation.state}`],
  ]
  const known = moments.filter((moment): moment is [Date, string] => moment[0] !== null)
  return known.sort(([a], [b]) => a.getTime() - b.getTime())
}

function lastFailure({ operation, lastFailure: failed }: OperationStory, now: Date): string[] {
  return failed && operation.state !== 'success' ? [lineOf(failed, now)] : []
}
