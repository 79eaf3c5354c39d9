import test from 'ava'
import { engineWords, stateOf } from '../../../cli/databases/database-state.ts'
import type { OperatedDatabase, PendingOperation } from '../../../db/databases/database-operator.ts'
import { ago, now, operated } from './story.ts'

const pending = (changes: Partial<PendingOperation>): Partial<OperatedDatabase> => ({
  pending: { id: 'a'.repeat(32), kind: 'rotate', state: 'running', step: null, since: ago(5), ...changes },
})
const exited: Partial<OperatedDatabase> = {
  ...{ status: 'exited', started_at: null, exit_code: 137, exit_oom: true, exit_at: ago(4) },
}

for (const [what, changes, state, words, isSilent] of [
  ['that runs', {}, 'running', /^running for 2 h$/],
  [
    'that was started again',
    { crash_code: 137, crash_oom: true, crash_at: ago(7210), crash_times: [ago(7210)] },
    'running',
    /^running for 2 h, started again after it exited 137 \(out of memory\) 2 h ago$/,
  ],
  [
    'that crashed more than a day ago',
    { crash_code: 1, crash_oom: false, crash_at: ago(86_401) },
    'running',
    /^running for 2 h$/,
  ],
  ['that is to be stopped', { desired_state: 'stopped' }, 'stopping', /is being stopped/],
  ['that was stopped', { ...exited, desired_state: 'stopped' }, 'stopped', /^stopped on purpose$/],
  [
    'whose restart is due later',
    { ...exited, restarts: 3, restart_at: ago(-15) },
    'restarting',
    /^exited 137 \(out of memory\) 4 s ago; restart 3 of 4 is due in 15 s$/,
  ],
  ['whose restart is due', { ...exited, restarts: 1, restart_at: ago(1) }, 'restarting', /restart 1 of 4 is due now$/],
  ['that crashed too often', { ...exited, restarts: 5 }, 'down', /^STAYS DOWN after 5 crashes: exited 137/],
  ['that has just ended', { ...exited, exit_code: null, exit_oom: false }, 'exited', /^exited 4 s ago; its host will/],
  ['whose creation is lost', { status: 'created', started_at: null }, 'exited', /^created, without an operation/],
  ['with a step', pending({ step: 'setting the password' }), 'busy', /^rotate: setting the password, for 5 s$/],
  ['whose operation waits', pending({ state: 'queued', kind: 'stop' }), 'busy', /^stop waits, for 5 s$/],
  ['that is not confirmed', pending({ state: 'accepting', kind: 'create' }), 'busy', /^create is not confirmed yet/],
  ['of a silent host', {}, 'unreachable', /^HOST h1 IS SILENT; it was running for 2 h$/, true],
  [
    'of a silent host, stopped',
    { ...exited, desired_state: 'stopped' },
    'unreachable',
    /was stopped on purpose$/,
    true,
  ],
  ['of a silent host, busy', pending({}), 'busy', /^HOST h1 IS SILENT; rotate: in progress/, true],
  ['that is lost', { ...exited, lost_with: 'h1', ...pending({}) }, 'lost', /^LOST with host h1$/, true],
] as const)
  test(`a database ${what} is ${state}, in words too`, t => {
    const seen = stateOf(operated(changes), { reachable: !isSilent }, now)
    t.is(seen.state, state)
    t.regex(seen.words, words)
  })

test('a database of a host that is not registered counts as one of a silent host', t => {
  t.is(stateOf(operated(), undefined, now).state, 'unreachable')
})

test('only the stand-in is named as one', t => {
  t.is(engineWords({ engine: 'mongo', version: '8', image: 'berth/mongo-stand-in:8' }), 'mongo 8 (stand-in)')
  t.is(engineWords({ engine: 'mongo', version: '8', image: 'berth/mongo:8' }), 'mongo 8')
})
