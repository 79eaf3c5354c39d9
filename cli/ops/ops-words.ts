import type { OperationLine, OperationStory } from '../../db/operations/operator.ts'
import { oneLine } from '../terminal/printable.ts'
import { columns } from '../terminal/terminal.ts'

/** An operation in one line, for lists in other reports. */
export function lineOf(line: OperationLine, now: Date): string {
  const { id, kind, state, revision, branch, step, code, message } = line
  const what = revision ? ` of ${revision.slice(0, 7)}${branch ? ` (${branch})` : ''}` : ''
  const when = since(line.finished_at ?? line.started_at ?? line.created_at, now)
  const why = [code, message].filter(Boolean).join(': ') || (state === 'success' ? null : step)
  return oneLine(`${id.slice(0, 8)} ${kind}${what}, ${state} ${when}${why ? `, ${why}` : ''}`)
}

/** `berth ops list` for people. */
export function table(lines: readonly OperationLine[], now: Date): string {
  if (lines.length === 0) return 'No operations.'
  const head = ['ID', 'TARGET', 'KIND', 'STATE', 'SINCE', 'WHAT']
  const rows = lines.map(line => [
    line.id.slice(0, 8),
    `${line.target_type === 'app' ? '' : 'database '}${line.app_name ?? '(deleted)'} ${line.app_id.slice(0, 8)}`,
    line.kind,
    line.cancel_requested_at && line.state === 'running' ? 'cancelling' : line.state,
    age(line.finished_at ?? line.started_at ?? line.created_at, now),
    [
      line.revision && `${line.revision.slice(0, 7)}${line.branch ? ` (${line.branch})` : ''}`,
      line.waiting_for ?? [line.code, line.message].filter(Boolean).join(': ').slice(0, 120),
      line.state === 'running' && (line.step ?? line.deployment_state),
    ]
      .filter(Boolean)
      .join(' '),
  ])
  return columns([head, ...rows], '')
}

type Source = Pick<
  NonNullable<OperationStory['deployment']>,
  'source' | 'revision' | 'branch' | 'trigger' | 'snapshot_id'
>

export function sourceOf({ source, revision, branch, trigger, snapshot_id }: Source): string {
  if (source === 'snapshot') return `snapshot ${snapshot_id?.slice(0, 8) ?? 'that was deleted'}`
  if (source === 'upload') return `upload ${revision.slice(0, 7)}`
  return `commit ${revision.slice(0, 7)}${branch ? ` of ${branch}` : ''}, pushed to ${trigger === 'app' ? 'the git-provider app' : 'its webhook'}`
}

export function aligned(rows: [string, string | null | undefined][]): string[] {
  const filled = rows.filter((row): row is [string, string] => Boolean(row[1]))
  return filled.length > 0 ? columns(filled, '').split('\n') : []
}

export const clock = (at: Date): string => at.toISOString().replace('T', ' ').slice(0, 23)

export const since = (at: Date, now: Date): string => `${age(at, now)} ago (${at.toISOString().slice(0, 19)}Z)`

/** A duration in one unit: 5 s, 3 min, 2 h, 4 d. */
export function age(at: Date, now: Date): string {
  const seconds = Math.max(0, Math.round((now.getTime() - at.getTime()) / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}
