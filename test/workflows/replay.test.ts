import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Worker } from '@temporalio/worker'
import test from 'ava'
import { upkeepKinds } from '../../policy/objects/blob-upkeep.ts'
import { workflowCode } from '../../workers/temporal/temporal-worker.ts'
import { checkout } from '../kit/command.ts'
import { readHistories } from '../kit/platform/histories.ts'

/** Every path through a workflow; each has a recorded run per generation (CONTRIBUTING.md says how to record them). */
const paths = [
  'blob-cancelled',
  ...upkeepKinds.map(kind => `blob-${kind}`),
  'create',
  'create-cancelled',
  'create-failed',
  'create-stopped',
  'commands',
  'command-host-lost',
  'deploy-beside-commands',
  'deploy-cancelled',
  'deploy-configured',
  'deploy-deleted',
  'deploy-failed-gate',
  'deploy-failed-gate-program',
  'deploy-failed-install',
  'deploy-host-lost',
  'deploy-host-lost-going-back',
  'deploy-program',
  'deploy-superseded',
  'deploy-web',
  'deploy-without-restart',
  'downgrade',
  'downgrade-expired',
  'restore',
  'restore-before-push',
  'restore-cancelled',
  'restore-failed',
  'restore-stopped',
  'snapshot',
  'snapshot-beside-deploy',
  'snapshot-cancelled',
  'snapshot-deleted',
  'snapshot-failed',
]

/** Paths that are recorded since the third generation. */
const laterPaths = [
  'create-proxy-away',
  'create-removed',
  'create-unanswered',
  'deploy-proxy-away',
  'deploy-removed',
  'deploy-removed-failed',
  'restart-failed',
  'snapshot-place-lost',
  'stop-proxy-away',
]

/** Paths of databases, which are recorded since the fourth generation. */
const databasePaths = [
  'certify',
  'commands',
  'create-cancelled',
  'create-deleted',
  'create-failed-prepareDatabase',
  'create-failed-setDatabasePassword',
  'create-failed-startDatabase',
  'create-port',
  'drill',
  'drill-failed',
  'resize',
  'resize-refused',
  'restore',
  'restore-failed-prepareRestore',
  'restore-failed-setDatabasePassword',
  'restore-failed-startDatabase',
  'restore-stopped',
  'rotate',
  'snapshot-ended',
  'undo',
  'undo-failed-setDatabasePassword',
  'undo-failed-startDatabase',
  'undo-stopped',
  'upgrade',
  'upgrade-failed-setDatabasePassword',
  'upgrade-failed-startDatabase',
  'upgrade-stopped',
].map(path => `database-${path}`)

/** Paths of applications, which are recorded again since the fifth generation. */
const appPaths = [...paths, ...laterPaths, 'deploy-answering'].filter(
  path => !/^(blob|downgrade|snapshot-place)/.test(path),
)

/** Paths with restarts, which are recorded again since the seventh generation. */
const restartPaths = ['commands', 'restart-failed', 'restart-nothing-stopped', 'restart-older-host']

/** Paths of operations of databases that another run of the lane takes over when it is too late, which are recorded since the seventh generation. */
const takenOverPaths = ['database-resize-taken-over', 'database-rotate-taken-over']

/** Paths of creations, whose step that brings the files starts them too since the eighth generation. */
const creationPaths = [
  ...[...paths, ...laterPaths].filter(path => path.startsWith('create')),
  'create-not-started',
  'create-older-host',
]

/** Every path of an application's lane, which are recorded again since the ninth generation. */
const lanePaths = [...new Set([...appPaths, ...restartPaths, ...creationPaths, 'snapshot-place-lost'])]

/** Paths with a snapshot of a database, which takes a free slot in the step that copies since the tenth generation. */
const freeSlotPaths = ['restore', 'snapshot-ended', 'snapshot-in-line'].map(path => `database-${path}`)

/** Paths with a restart whose outcome its host has recorded since the eleventh generation. */
const recordedPaths = ['commands']

/** Generations of the workflows whose runs may still be in progress, with their paths; the first has no number. */
const generations: Record<string, string[]> = {
  '': paths,
  '.2': paths,
  '.3': [...paths, ...laterPaths],
  '.4': databasePaths,
  '.5': appPaths,
  '.6': databasePaths,
  '.7': [...restartPaths, 'domain', ...takenOverPaths],
  '.8': creationPaths,
  '.9': lanePaths,
  '.10': freeSlotPaths,
  '.11': recordedPaths,
}

interface Marker {
  markerName: string
  details?: Record<string, { payloads: { data: string }[] }>
}

interface Recorded {
  events: { markerRecordedEventAttributes?: Marker }[]
}

/** Names of the patches whose new path a recorded run has taken. */
function patchesOf(history: unknown): string[] {
  return (history as Recorded).events
    .flatMap(({ markerRecordedEventAttributes: marker }) => (marker?.markerName === 'core_patch' ? [marker] : []))
    .flatMap(({ details }) => Object.values(details ?? {}))
    .flatMap(({ payloads }) => payloads.map(({ data }) => JSON.parse(atob(data)).id as string))
}

const replay = (histories: { workflowId: string; history: unknown }[]) =>
  Worker.runReplayHistories(workflowCode(), histories as never)

test('recorded runs replay with the current code', async t => {
  t.timeout(120_000)
  t.deepEqual(
    Object.values(generations).map(({ length }) => length),
    [39, 39, 48, 27, 38, 27, 7, 9, 43, 3, 1],
  )
  const histories = await readHistories()
  t.deepEqual(
    histories.map(history => history.workflowId).sort(),
    Object.entries(generations)
      .flatMap(([generation, its]) => its.map(path => path + generation))
      .sort(),
  )
  // The timeout begins again with each assertion, so it holds for one run, not for all of them.
  for await (const { workflowId, error } of replay(histories)) t.is(error?.message, undefined, workflowId)
})

test('a creation goes on whose host was of a newer version than its worker', async t => {
  t.timeout(120_000)
  const older = (await readHistories()).find(({ workflowId }) => workflowId === 'create.5')
  // Only the answer of the step that brings the files differs: lanes of that version have not looked at it.
  const answered = { containerId: 'c', hostPort: 1, hostAddress: null, startedAt: '2026-11-30T12:00:00.000Z' }
  const { history } = structuredClone(older) as unknown as { history: { events: Answered[] } }
  const brought = history.events.find(
    ({ activityTaskScheduledEventAttributes: of }) => of?.activityType.name === 'prepareRelease',
  )
  const end = history.events.find(
    ({ activityTaskCompletedEventAttributes: of }) => of && String(of.scheduledEventId) === String(brought?.eventId),
  )
  const [payload] = end!.activityTaskCompletedEventAttributes!.result.payloads
  payload!.data = btoa(JSON.stringify({ ...JSON.parse(atob(payload!.data)), started: answered }))
  for await (const { error } of replay([{ workflowId: 'create-newer-host', history }])) t.is(error?.message, undefined)
})

interface Answered {
  eventId: string
  activityTaskScheduledEventAttributes?: { activityType: { name: string } }
  activityTaskCompletedEventAttributes?: { scheduledEventId: string; result: { payloads: { data: string }[] } }
}

/** Patches whose new path is in no recorded run, with the reason. */
const unrecorded: Record<string, string> = {}

test('the new path of every change to the workflows is in a recorded run', async t => {
  const folder = join(checkout, 'workflows')
  const files = (await readdir(folder, { recursive: true })).filter(file => file.endsWith('.ts'))
  const texts = files.map(file => readFileSync(join(folder, file), 'utf8'))
  const patches = texts.flatMap(text => [...text.matchAll(/\bpatched\('([^']+)'\)/g)].map(([, name]) => name as string))
  t.true(patches.includes('commands-apart'))
  const recorded = new Set((await readHistories()).flatMap(({ history }) => patchesOf(history)))
  const missing = [...new Set(patches)].filter(name => !recorded.has(name)).sort()
  t.deepEqual(
    missing,
    Object.keys(unrecorded).sort(),
    'Let a test that `scripts/record-histories.mjs` runs take the new way and keep its run (`keepHistory`), name it in `laterPaths` and ' +
      'record it: `node scripts/record-histories.mjs <generation>`. What cannot be recorded is named in `unrecorded`, with the reason.',
  )
})

test('a change that breaks old runs is detected', async t => {
  t.timeout(120_000)
  const first = (await readHistories()).find(({ workflowId }) => workflowId === 'create')
  const changed = JSON.parse(
    JSON.stringify(first).replaceAll('"placeFiles"', '"placeOtherFiles"').replaceAll('"removeFiles"', '"x"'),
  )
  const broken: string[] = []
  for await (const { workflowId, error } of replay([changed])) if (error) broken.push(workflowId)
  t.deepEqual(broken, [first!.workflowId])
})
