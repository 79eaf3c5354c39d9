import type { OperatedDatabase } from '../../db/databases/database-operator.ts'
import type { HostRow } from '../../db/hosts/hosts.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { maxCrashes, recentCrash, restartRules } from '../../policy/databases/restarts.ts'
import { age } from '../ops/ops-words.ts'

/** What an operator must know first about a database. Scripts rely on these words (docs/json-output.md). */
export type DatabaseState =
  | 'lost'
  | 'busy'
  | 'unreachable'
  | 'running'
  | 'stopping'
  | 'stopped'
  | 'restarting'
  | 'down'
  | 'exited'

type Reported = Pick<HostRow, 'reachable'> | undefined

/** The state of a database, and the same in words. Ages are computed from `now`. */
export function stateOf(
  database: OperatedDatabase,
  host: Reported,
  now: Date,
): { state: DatabaseState; words: string } {
  const { lost_with: lostWith, pending, status, desired_state: desired } = database
  if (lostWith) return { state: 'lost', words: `LOST with host ${lostWith}` }
  const silent = host?.reachable ? '' : `HOST ${database.host_id} IS SILENT; `
  if (pending) return { state: 'busy', words: silent + pendingWords(pending, now) }
  if (silent) return { state: 'unreachable', words: `${silent}it was ${atLast(database, now)}` }
  if (status === 'running' && desired === 'stopped') return { state: 'stopping', words: 'runs, and is being stopped' }
  if (status === 'running') {
    const readOnly = database.read_only_since ? ', READ-ONLY: its disk is full' : ''
    return { state: 'running', words: `${atLast(database, now)}${againWords(database, now)}${readOnly}` }
  }
  if (status === 'exited') return desired === 'running' ? afterExit(database, now) : stopped
  return { state: 'exited', words: `${status}, without an operation; its host corrects that within a minute` }
}

const stopped = { state: 'stopped', words: 'stopped on purpose' } as const

function pendingWords({ kind, state, step, since }: NonNullable<OperatedDatabase['pending']>, now: Date): string {
  if (state === 'running') return `${kind}: ${step ?? 'in progress'}, for ${age(since, now)}`
  return `${kind} ${state === 'queued' ? 'waits' : 'is not confirmed yet'}, for ${age(since, now)}`
}

/** The last that is known of a database whose host is silent, or of one that runs. */
function atLast({ status, desired_state: desired, started_at: startedAt }: OperatedDatabase, now: Date): string {
  if (status === 'running') return `running${startedAt ? ` for ${age(startedAt, now)}` : ''}`
  return status === 'exited' && desired === 'stopped' ? stopped.words : status
}

function againWords(database: OperatedDatabase, now: Date): string {
  const crash = recentCrash(database, now)
  return crash ? `, started again after it ${endWords(crash.end, now)}` : ''
}

/** An engine that should run and does not. */
function afterExit(database: OperatedDatabase, now: Date): { state: DatabaseState; words: string } {
  const { restarts, restart_at: restartAt } = database
  const ended = exitWords(database, now)
  if (restartAt) {
    const when = restartAt > now ? `in ${age(now, restartAt)}` : 'now'
    const words = `${ended}; restart ${restarts} of ${restartRules.delaysSeconds.length} is due ${when}`
    return { state: 'restarting', words }
  }
  if (restarts >= maxCrashes) return { state: 'down', words: `STAYS DOWN after ${restarts} crashes: ${ended}` }
  return { state: 'exited', words: `${ended}; its host will start it again` }
}

/** How an engine ended: `exited 137 (out of memory) 5 s ago`. */
export function exitWords(
  { exit_code: code, exit_oom: oom, exit_at: at }: Pick<OperatedDatabase, 'exit_code' | 'exit_oom' | 'exit_at'>,
  now: Date,
): string {
  return endWords({ code, oom, at }, now)
}

interface End {
  code: number | null
  oom: boolean | null
  at: Date | null
}

/** The same of any end. */
export function endWords({ code, oom, at }: End, now: Date): string {
  const why = oom ? ' (out of memory)' : ''
  return `exited${code === null ? '' : ` ${code}`}${why}${at ? ` ${age(at, now)} ago` : ''}`
}

/** Whether a database runs on the server that stands in for MongoDB. */
export const isStandIn = ({ image, version }: Pick<OperatedDatabase, 'image' | 'version'>): boolean =>
  image === mongoStandIn.image(version)

/** Engine and version; a stand-in is named as such. */
export const engineWords = (database: Pick<OperatedDatabase, 'engine' | 'version' | 'image'>): string =>
  `${database.engine} ${database.version}${isStandIn(database) ? ' (stand-in)' : ''}`
