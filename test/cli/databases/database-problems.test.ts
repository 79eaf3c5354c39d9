import test from 'ava'
import type { HostReading } from '../../../api/hosts/host-reader.ts'
import { databaseExplanation } from '../../../cli/databases/database-explanation.ts'
import { problemsOf } from '../../../cli/databases/database-problems.ts'
import type { OperationLine } from '../../../db/operations/operator.ts'
import { MiB } from '../../../lib/bytes.ts'
import { ago, now, silent, storyOf } from './story.ts'

const id = 'd'.repeat(32)
const exited = { status: 'exited', started_at: null, exit_code: 1, exit_oom: false, exit_at: ago(4) } as const

function reading(changes: Partial<HostReading> = {}, memoryMb = 100): HostReading {
  const stats = {
    cpuPercent: 0,
    memoryBytes: memoryMb * MiB,
    memoryLimitBytes: 1024 * MiB,
    networkIn: 0,
    networkOut: 0,
  }
  return {
    state: { status: 'running', running: true, startedAt: null, exitCode: null, oom: false },
    stats: { ...stats, blockRead: 0, blockWrite: 0 },
    storageBytes: 10 * MiB,
    ...changes,
  }
}

/** Its newest operation, which has failed. */
const failed = (kind: string, seconds = 3): OperationLine => {
  const times = { created_at: ago(seconds + 60), finished_at: ago(seconds) }
  return { id: 'f'.repeat(32), kind, state: 'error', target_type: 'database', ...times } as OperationLine
}

test('a database that runs well has no problem', t => {
  t.deepEqual(problemsOf(storyOf({}, { figures: reading() }), now), [])
})

for (const [what, story, problem, remedy] of [
  ['a lost database', storyOf({ lost_with: 'h1' }, { host: silent }), /data was lost with host h1/, /create another/],
  [
    'a silent host',
    storyOf({}, { host: silent }),
    /^Host h1 is silent, last seen 10 min ago .*may still work/,
    /berth logs host.*berth hosts forget h1/,
  ],
  [
    'an operation that takes long',
    storyOf(
      { pending: { id: 'a'.repeat(32), kind: 'resize', state: 'running', step: 'x', since: ago(300) } },
      { holds: ['Temporal does not answer.'] },
    ),
    /^Its operation aaaaaaaa \(resize\) has taken 5 min: Temporal does not answer\.$/,
    /berth ops explain aaaaaaaa/,
  ],
  [
    'an image that is prepared',
    storyOf({ ...exited, desired_state: 'stopped' }, { image: null }),
    /^It cannot be started: host h1 is still preparing the image berth\/postgres:17/,
    /berth logs host/,
  ],
  [
    'an image that its host does not have',
    storyOf({}, { image: 'No registry answers.\nGive the host a registry that has postgres:17.' }),
    /^It runs, but cannot be restarted: the image berth\/postgres:17 is not on host h1\. No registry answers\.$/,
    /^Give the host a registry that has postgres:17\.$/,
  ],
  [
    'an engine that is started again',
    storyOf({ ...exited, restarts: 2, restart_at: ago(-3) }),
    /^Its engine exited 1 4 s ago, and is being restarted\.$/,
    /after 4 restarts in a row.*end of its log/,
  ],
  [
    'an engine that its host could not start',
    storyOf({ ...exited, restarts: 4 }, { operations: [failed('start')] }),
    /^Its engine is not running, because its host could not start it\.$/,
    /^berth ops explain ffffffff shows why: .* tries again at least every 5 minutes$/,
  ],
  [
    'an engine that ran after a start that has failed',
    storyOf({ ...exited, restarts: 4 }, { operations: [failed('start', 86_400)] }),
    /^Its engine exited 1 4 s ago\.$/,
    /The end of its log shows why.*berth ops retry ffffffff$/,
  ],
  [
    'an engine that stays down',
    storyOf({ ...exited, restarts: 5 }, { operations: [failed('start')] }),
    /exited 1 4 s ago, crashed 5 times in a row, and stays down/,
    /The end of its log shows why.*berth ops retry ffffffff$/,
  ],
  [
    'an engine without memory',
    storyOf({ ...exited, exit_oom: true, restarts: 5 }, { operations: [failed('resize')] }),
    /out of memory/,
    new RegExp(`more than its 1024 MB.*PATCH /v2/databases/${id}.*berth databases start ${id}$`),
  ],
  [
    'an engine that was killed from outside',
    storyOf({ ...exited, exit_code: 137, restarts: 5 }),
    /exited 137 4 s ago, crashed 5 times/,
    new RegExp(`^It was killed from outside.*host h1\\. Then start it: berth databases start ${id}$`),
  ],
  [
    'a container that is not there',
    storyOf({}, { figures: reading({ state: null, stats: null }) }),
    /recorded as running, but its container is not running/,
    /within a minute/,
  ],
  [
    'a plan that ended',
    storyOf({}, { suspended: true }),
    /plan of its owner, ana@example\.org/,
    /berth users set-plan/,
  ],
  ['a blocked account', storyOf({}, { blocked: true }), /is blocked/, /berth users unblock ana@example\.org/],
  ['memory that is nearly full', storyOf({}, { figures: reading({}, 1000) }), /1000 MB of its 1024 MB/, /PATCH/],
  [
    'a full disk',
    storyOf({}, { figures: reading({ storageBytes: 95 * MiB }) }),
    /95 MB of its 100 MB of disk/,
    /PATCH/,
  ],
  [
    'a read-only database',
    storyOf({ read_only_since: ago(300) }, { figures: reading({ storageBytes: 98 * MiB }) }),
    /^It has been read-only for 5 min: disk 98 % full\.$/,
    /default_transaction_read_only = off.*at least 10 MB of disk.*PATCH.*below 95 %/,
  ],
  [
    'a renewal that failed',
    storyOf({ renewal_failures: 2, certificate_renew_at: ago(-1800) }),
    /2 attempts in a row have failed; the next attempt is in 30 min\.$/,
    /berth ops explain/,
  ],
  [
    'a certificate that expires soon',
    storyOf({ certificate_ends_at: ago(-86_400 * 7) }),
    /^Its certificate expires in 7 d\.$/,
    /credentials\/reset/,
  ],
  [
    'a database without a good snapshot',
    storyOf({ snapshot_warn_at: null }),
    /^No snapshot of it has succeeded for more than 3 days\.$/,
    /berth ops explain/,
  ],
  ['an expired certificate', storyOf({ certificate_ends_at: ago(7200) }), /expired 2 h ago: clients that/, /reset/],
] as const)
  test(`${what} is reported, with what to do`, t => {
    const found = problemsOf(story, now)
    t.is(found.length, 1, JSON.stringify(found))
    t.regex(found[0]!.problem, problem)
    t.regex(found[0]!.remedy, remedy)
    t.true(databaseExplanation(story, now).includes(`  ${found[0]!.problem}\n    -> ${found[0]!.remedy}`))
  })

test('a database that was started again after a crash says so for a day', t => {
  const crashed = {
    crash_code: 137,
    crash_oom: true,
    crash_at: ago(7300),
    crash_times: [7300, 8000, 86_399, 86_401].map(ago),
  }
  const [found, ...others] = problemsOf(storyOf(crashed), now)
  t.deepEqual(others, [])
  t.regex(found!.problem, /exited 137 \(out of memory\) 2 h ago, and was started again\. Crashes within a day: 3\./)
  t.regex(found!.remedy, /needs more than its 1024 MB/)
  t.regex(
    databaseExplanation(storyOf(crashed), now),
    /last crash +exited 137 \(out of memory\) 2 h ago; crashes within a day: 3/,
  )
  t.deepEqual(problemsOf(storyOf({ ...crashed, crash_at: ago(86_401) }), now), [])
})

test('a database that its owner stopped has no problem, and its end is reported', t => {
  const story = storyOf({ ...exited, exit_code: 0, desired_state: 'stopped' })
  t.deepEqual(problemsOf(story, now), [])
  t.regex(databaseExplanation(story, now), /STOPPED on purpose\.[\s\S]*last exit +exited 0 4 s ago/)
})

test('an explanation names the stand-in, what is not known, and moves no cursor', t => {
  const mongo = { engine: 'mongo', version: '8', image: 'berth/mongo-stand-in:8', name: 'a\u001b[2Jb' } as const
  const text = databaseExplanation(storyOf(mongo, { log: { why: 'its host does not answer' } }), now)
  t.regex(text, /engine +mongo 8 \(stand-in\), not MongoDB/)
  t.regex(text, /container +berth-db-d+-1, not known: its host does not answer/)
  t.regex(text, /The end of its log:\n {2}not available: its host does not answer$/)
  t.regex(text, /port +20000, inside and outside; outside at 127/)
  t.false(text.includes('\u001b'))
})
