import test from 'ava'
import { type Circumstances, type Observation, verdict } from '../../../policy/hosts/reconciliation.ts'

const calm: Circumstances = { rebooted: false, busy: false }
const running: Observation = {
  status: 'running',
  desired: 'running',
  hostPort: 4000,
  container: { running: true, hostPort: 4000 },
}
const ended: Observation = { ...running, container: { running: false, hostPort: null } }

const table: [what: string, observed: Observation, circumstances: Circumstances, expected: string][] = [
  ['what runs as recorded is left alone', running, calm, 'nothing'],
  ['an exit that was seen is final', ended, calm, 'record-exit'],
  ['after a reboot what ran is brought back', ended, { ...calm, rebooted: true }, 'bring-back'],
  ['a container that the engine lost is made again', { ...running, container: null }, calm, 'bring-back'],
  ['what was started by hand after a reboot is recorded', running, { ...calm, rebooted: true }, 'record-start'],
  [
    'what was stopped on purpose stays so after a reboot',
    { ...ended, status: 'exited', desired: 'stopped' },
    { ...calm, rebooted: true },
    'nothing',
  ],
  [
    'a crash that was seen before the reboot stays one',
    { ...ended, status: 'exited' },
    { ...calm, rebooted: true },
    'nothing',
  ],
  ['an operation under way says what is true', ended, { rebooted: true, busy: true }, 'nothing'],
  [
    'a new port after an engine restart is recorded',
    { ...running, container: { running: true, hostPort: 4001 } },
    calm,
    'record-start',
  ],
  ['a container that was started by hand is recorded', { ...running, status: 'exited' }, calm, 'record-start'],
  [
    'one that shall not run is ended, and never recorded as running',
    { ...running, status: 'exited', desired: 'stopped' },
    calm,
    'bring-down',
  ],
  ['a deletion is never taken back', { ...running, desired: 'deleted' }, { ...calm, rebooted: true }, 'nothing'],
  [
    'a start that nobody is about any more has failed',
    { ...ended, status: 'starting', container: null },
    calm,
    'record-exit',
  ],
  ['a start under way is not judged', { ...ended, status: 'starting' }, { ...calm, busy: true }, 'nothing'],
  ['a start that got through is recorded', { ...running, status: 'starting' }, calm, 'record-start'],
  ['a creation under way is not judged', { ...running, status: 'created', container: null }, calm, 'nothing'],
]

for (const [what, observed, circumstances, expected] of table) {
  test(what, t => {
    t.is(verdict(observed, circumstances), expected as never)
  })
}
