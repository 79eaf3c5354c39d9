import test from 'ava'
import {
  type DatabaseCircumstances,
  type DatabaseObservation,
  databaseVerdict,
} from '../../../policy/databases/reconciliation.ts'
import { maxCrashes } from '../../../policy/databases/restarts.ts'

const now = new Date('2026-01-02T03:04:05.000Z')
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000)
const calm: DatabaseCircumstances = { rebooted: false, busy: false, now }
const rebooted = { ...calm, rebooted: true }
const container = { id: 'c1', running: true, paused: false, endedAt: null }
const running: DatabaseObservation = {
  status: 'running',
  desired: 'running',
  containerId: 'c1',
  startedAt: ago(60),
  exitAt: null,
  crashes: 0,
  restartAt: null,
  container,
}
const ended = { ...running, container: { ...container, running: false, endedAt: ago(1) } }
const recorded = { status: 'exited', startedAt: null, exitAt: ago(1), crashes: 1, restartAt: ago(-1) } as const
const crashed: DatabaseObservation = { ...ended, ...recorded }

const table: [what: string, observed: DatabaseObservation, circumstances: DatabaseCircumstances, expected: string][] = [
  ['what runs as recorded is left alone', running, calm, 'nothing'],
  ['an engine that ended is recorded, and then started again', ended, calm, 'record-exit'],
  ['after a reboot what ran is brought back', ended, rebooted, 'bring-back'],
  ['a container that the engine lost is made again', { ...running, container: null }, calm, 'bring-back'],
  ['what runs in a new boot is recorded', running, rebooted, 'record-start'],
  ['another container than the recorded one is recorded', { ...running, containerId: 'c0' }, calm, 'record-start'],
  ['a start that nobody recorded is recorded', { ...crashed, container }, calm, 'record-start'],
  ['a start that got through is recorded', { ...running, status: 'starting' }, calm, 'record-start'],
  ['one that was paused by hand continues', { ...running, container: { ...container, paused: true } }, calm, 'resume'],
  ['one that shall not run is ended', { ...running, desired: 'stopped' }, calm, 'bring-down'],
  [
    'one that shall not run is ended, also a paused one of another boot',
    { ...running, desired: 'stopped', container: { ...container, paused: true } },
    rebooted,
    'bring-down',
  ],
  ['one that was stopped stays so', { ...crashed, desired: 'stopped' }, calm, 'nothing'],
  ['one that was stopped stays so after a reboot', { ...crashed, desired: 'stopped' }, rebooted, 'nothing'],
  ['the end of a stop that was not recorded is', { ...ended, desired: 'stopped' }, calm, 'record-exit'],
  ['a restart that is not due yet is awaited', crashed, calm, 'await-restart'],
  ['a restart that is due happens', { ...crashed, restartAt: now }, calm, 'restart'],
  ['a restart that was due before a reboot happens after it', { ...crashed, restartAt: ago(60) }, rebooted, 'restart'],
  ['a restart that its host could not make is tried again', { ...crashed, restartAt: null }, calm, 'bring-back'],
  ['so is one without a container', { ...crashed, restartAt: null, container: null }, calm, 'bring-back'],
  [
    'an engine that ended in its restart has crashed',
    { ...crashed, exitAt: ago(2), restartAt: null },
    calm,
    'record-exit',
  ],
  ['so has one that had never ended before', { ...crashed, exitAt: null, restartAt: null }, calm, 'record-exit'],
  [
    'an engine that crashed too often stays down',
    { ...crashed, crashes: maxCrashes, restartAt: null },
    calm,
    'nothing',
  ],
  ['crashes count while an engine ran only shortly', { ...running, crashes: 4, startedAt: ago(599) }, calm, 'nothing'],
  [
    'crashes are forgotten once it has run for 10 minutes',
    { ...running, crashes: 1, startedAt: ago(600) },
    calm,
    'forget-crashes',
  ],
  [
    'crashes are forgotten when somebody starts one that had stayed down',
    { ...running, crashes: maxCrashes },
    calm,
    'forget-crashes',
  ],
  ['a start that nobody is about any more has failed', { ...ended, status: 'starting' }, calm, 'record-exit'],
  ['so has a restart', { ...ended, status: 'restarting', container: null }, calm, 'record-exit'],
  ['an operation under way says what is true', ended, { ...rebooted, busy: true }, 'nothing'],
  [
    'a restart does not happen while an operation is under way',
    { ...crashed, restartAt: now },
    { ...calm, busy: true },
    'nothing',
  ],
  ['a deletion is never taken back', { ...running, desired: 'deleted' }, rebooted, 'nothing'],
  ['nor is the engine of one started again', { ...crashed, desired: 'deleted', restartAt: now }, calm, 'nothing'],
  ['a creation that failed is not judged', { ...crashed, status: 'created', container: null }, calm, 'nothing'],
]

for (const [what, observed, circumstances, expected] of table) {
  test(what, t => {
    t.is(databaseVerdict(observed, circumstances), expected as never)
  })
}
