import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { ImageOnItsWay } from '../../../activities/containers/image-wait.ts'
import { HostUnreachable, ImageUnavailable } from '../../../activities/containers/port.ts'
import { runJob } from '../../../activities/databases/dump-jobs.ts'
import { EngineUnavailable } from '../../../activities/databases/port.ts'
import { notTried } from '../../../activities/databases/snapshots/drill.ts'
import { refusal, withCode } from '../../../activities/failures.ts'
import { SnapshotCorrupt } from '../../../activities/snapshots/port.ts'
import { VolumeLost } from '../../../activities/volumes/port.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { type DrillOutcome, drillOutcome } from '../../../policy/databases/drills.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'

/** Of the drill that an error has ended, as its step reports it. */
async function outcomeOf(error: unknown): Promise<DrillOutcome> {
  const failure = await Promise.reject(error).catch(notTried).catch(withCode)
  const code = (failure as ApplicationFailure).type
  // As lanes do, in workflows/failures.ts.
  return drillOutcome(code && /^[A-Z_]+$/.test(code) ? code : 'ACTION_FAILED')
}

test('a drill that fails for another reason says nothing about the snapshot', async t => {
  const ofOurs = Object.assign(new Error('terminating connection'), { name: 'error', code: '57P01', severity: 'FATAL' })
  for (const error of [
    new HostUnreachable('connect ENOENT'),
    new VolumeLost('v'),
    new ImageUnavailable('No registry answers.'),
    new ImageOnItsWay('It is being brought.'),
    new NoSpaceLeft('The host has 3 MB of disk space left.'),
    ofOurs,
    Object.assign(new Error('read EIO'), { code: 'EIO' }),
    'no error',
  ])
    t.is(await outcomeOf(error), 'prevented', String(error))
})

test('a damaged snapshot, and an engine that does not load or serve it, are failures', async t => {
  const engine = Object.assign(new FakeContainerHost(), { runToEnd: async () => ({ exitCode: 1, oom: false }) })
  const job = await t.throwsAsync(runJob(engine, { command: ['psql'] } as never, new AbortController().signal))
  for (const error of [
    new SnapshotCorrupt('Its archive is damaged.'),
    refusal('SNAPSHOT_CORRUPT', 'The dump is damaged.'),
    refusal('ACTION_FAILED', 'The engine did not serve within 60 s.'),
    new EngineUnavailable('The redis engine does not answer.'),
    job,
  ])
    t.is(await outcomeOf(error), 'failed', String(error))
})

test('a drill that is given up keeps its reason', async t => {
  const lost = refusal('PlaceLost', 'Another operation holds the snapshot slot of this host now.')
  t.is(await t.throwsAsync(Promise.reject(lost).catch(notTried), { instanceOf: ApplicationFailure }), lost)
})
