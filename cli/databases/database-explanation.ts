import { databaseContainerName, databaseVolume } from '../../activities/databases/names.ts'
import { isUndoable } from '../../db/databases/database-acts.ts'
import { recentCrash } from '../../policy/databases/restarts.ts'
import { lineView } from '../ops/ops-view.ts'
import { aligned, clock, lineOf, since } from '../ops/ops-words.ts'
import { oneLine } from '../terminal/printable.ts'
import { databaseView } from './database-list.ts'
import { megabytes, problemsOf } from './database-problems.ts'
import { endWords, engineWords, exitWords, isStandIn, stateOf } from './database-state.ts'
import type { DatabaseStory } from './database-story.ts'
import { drillView, drillWords } from './drills.ts'
import { restorableFacts, restorableView } from './restorable-story.ts'
import { shortId } from './upgrades.ts'

/** Everything an operator needs to know about a database, in words. Ages are computed from `now`. */
export function databaseExplanation(story: DatabaseStory, now: Date): string {
  const { database, holds, operations, log } = story
  const { pending } = database
  const sections: [string, string[]][] = [
    ['', [oneLine(`database ${database.name} of ${database.owner_email}`), `  ${verdictOf(story, now)}`]],
    [
      'What is wrong, and what to do',
      problemsOf(story, now).flatMap(({ problem, remedy }) => [oneLine(problem), `  -> ${oneLine(remedy)}`]),
    ],
    ['Why its operation does not proceed', pending ? holds : []],
    ['What it is', aligned(factsOf(story, now))],
    ['Its last operations, newest first', operations.map(line => lineOf(line, now))],
    ['The end of its log', 'why' in log ? [`not available: ${log.why}`] : linesOf(log.lines)],
  ]
  return sections
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => (title ? [`${title}:`, ...lines.map(line => `  ${line}`)] : lines).join('\n'))
    .join('\n\n')
}

const linesOf = (lines: readonly string[]): string[] => (lines.length === 0 ? ['(empty)'] : lines.map(oneLine))

function verdictOf({ database, host }: DatabaseStory, now: Date): string {
  const { state, words } = stateOf(database, host ?? undefined, now)
  const [first, rest] = [state.toUpperCase(), words.startsWith(state) ? words.slice(state.length) : `: ${words}`]
  return `${first}${rest}.`
}

function factsOf(story: DatabaseStory, now: Date): [string, string | null | undefined][] {
  const { database, hostname, bind } = story
  const { id, generation, started_at: startedAt, certificate_ends_at: endsAt, exit_at: exitAt } = database
  const crash = recentCrash(database, now)
  return [
    ['id', id],
    [
      'engine',
      `${engineWords(database)}${isStandIn(database) ? ', not MongoDB: MONGO_STAND_IN is for trying Berth' : ''}`,
    ],
    ['image', `${database.image}, ${imageWords(story)}`],
    ['runs with', keptImageWords(story)],
    ['memory', memoryWords(story)],
    ['disk', diskWords(story)],
    ['host', hostWords(story, now)],
    ['address', hostname],
    ['port', `${database.port}, inside and outside${bind ? `; outside at ${bind} (DATABASE_BIND)` : ''}`],
    ['container', `${databaseContainerName({ id, generation })}, ${containerWords(story)}`],
    ['volume', `${databaseVolume({ id, generation })}, generation ${generation}`],
    ['undo of its restore', undoWords(story, now)],
    ['last drill', story.drill && `${clock(story.drill.ended_at)}Z ${drillWords(story.drill)}`],
    ['state', `${database.status}, desired: ${database.desired_state}`],
    ['running since', startedAt && clock(startedAt)],
    ['last exit', exitAt && exitWords(database, now)],
    ['last crash', crash && `${endWords(crash.end, now)}; crashes within a day: ${crash.times}`],
    ['crashes in a row', database.restarts ? String(database.restarts) : null],
    ['next restart', database.restart_at && clock(database.restart_at)],
    ['password', `generation ${database.password_generation}; not stored; its owner can reset it`],
    ...restorableFacts(story.restorable, now),
    ['certificate', endsAt ? `expires ${clock(endsAt)}` : 'none yet'],
    ['created', clock(database.created_at)],
  ]
}

function imageWords({ image, host }: DatabaseStory): string {
  if (image === 'ready') return `ready on host ${host?.id}`
  return image === null
    ? 'NOT REPORTED by its host: it is being prepared, or the host has not checked yet'
    : `NOT AVAILABLE: ${image}`
}

/** The image that it keeps, and whether its host has another one under that name. */
function keptImageWords({ database: { id, image, image_id: imageId }, host }: DatabaseStory): string | null {
  if (imageId === null) return null
  const offered = host?.database_image_ids[image] ?? imageId
  const newer = `; its host has ${shortId(offered)} under that name: berth databases upgrade ${id.slice(0, 8)}`
  return `${shortId(imageId)}${offered === imageId ? '' : newer}`
}

/** Until when its last restore can be undone; null = it cannot. */
const undoableUntil = ({ database }: DatabaseStory, now: Date): Date | null =>
  isUndoable(database, now) ? database.retired_until : null

function undoWords(story: DatabaseStory, now: Date): string | null {
  const { id } = story.database
  const until = undoableUntil(story, now)
  if (!until) return null
  return `possible until ${clock(until)}Z: berth databases undo ${id.slice(0, 8)}`
}

function memoryWords({ database, figures }: DatabaseStory): string {
  const used = figures?.stats ? `, ${megabytes(figures.stats.memoryBytes)} used` : ''
  return `${database.ram_mb} MB${used}`
}

function diskWords({ diskMb, figures }: DatabaseStory): string {
  return `${diskMb} MB${figures ? `, ${megabytes(figures.storageBytes)} used` : ''}`
}

function hostWords({ host, database }: DatabaseStory, now: Date): string {
  if (!host) return `${database.host_id}, UNKNOWN`
  if (host.forgotten_at) return `${host.id}, FORGOTTEN ${since(host.forgotten_at, now)}`
  if (!host.reachable) return `${host.id}, SILENT`
  return `${host.id} at ${host.address}, answers${host.draining ? ', draining' : ''}`
}

function containerWords({ figures }: DatabaseStory): string {
  if (!figures) return 'not known: its host does not answer'
  if (!figures.state) return 'missing'
  const { status, exitCode, oom } = figures.state
  const end = status === 'exited' ? ` ${exitCode ?? ''}${oom ? ' (out of memory)' : ''}` : ''
  return `${status}${end}`
}

/** The same as one object for scripts: exactly these keys, which docs/json-output.md lists. */
export function storyView(story: DatabaseStory, now: Date) {
  const { database, host, hostname, bind, image, figures, suspended, blocked, holds, operations, log } = story
  const { generation, password_generation } = database
  return {
    verdict: verdictOf(story, now),
    problems: problemsOf(story, now),
    database: databaseView(database, host ?? undefined, now),
    host: host && { id: host.id, reachable: host.reachable, last_seen_at: host.last_seen_at },
    owner: { id: database.owner_id, email: database.owner_email, suspended, blocked },
    hostname,
    bind,
    image: {
      name: database.image,
      state: image,
      id: database.image_id,
      offered: host?.database_image_ids[database.image] ?? null,
    },
    undo_until: undoableUntil(story, now),
    drill: story.drill && drillView(story.drill),
    container: containerView(story),
    memory_bytes: figures?.stats?.memoryBytes ?? null,
    storage_bytes: figures?.storageBytes ?? null,
    storage_mb: story.diskMb,
    volume_generation: generation,
    password_generation,
    holds,
    operations: operations.map(lineView),
    log_tail: 'why' in log ? null : log.lines,
    log_missing: 'why' in log ? log.why : null,
    restorable: restorableView(story.restorable),
  }
}

function containerView({ database, figures }: DatabaseStory) {
  if (!figures?.state) return null
  const { status, exitCode: exit_code, oom } = figures.state
  return { name: databaseContainerName(database), status, exit_code, oom }
}
