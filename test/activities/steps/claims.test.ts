import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { pino } from 'pino'
import { labels } from '../../../activities/containers/port.ts'
import { type Records, recordActivities } from '../../../activities/records.ts'
import type { ContainerExit, LaneOperation, StartedContainer } from '../../../activities/releases/release.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import * as segments from '../../../db/objects/segments.ts'
import type { OperationClaim } from '../../../db/operations/operation-claims.ts'
import { enqueueOperation, findOperation, type OperationKind } from '../../../db/operations/operations.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { claimLost } from '../../../policy/apps/claims.ts'
import { newVersionId } from '../../../policy/ids.ts'
import { reconcile } from '../../../workers/host/host-comparison.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { inBoot } from '../../kit/hosts/boots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const failure = { code: 'ACTION_FAILED', message: 'late' }
const exit: ContainerExit = { containerId: 'late', code: 1, oom: false, at: new Date().toISOString() }
const started: StartedContainer = {
  containerId: 'late',
  hostPort: 4999,
  startedAt: new Date().toISOString(),
  bootId: 'late-boot',
  variablesVersion: 9,
}

test.before('a host that answers however long this takes', async () => {
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

/** The records as a worker runs them for one step of one run of a lane. */
const as = (db: Db, claim: OperationClaim): Records =>
  recordActivities({ db, plans: defaultPlans, appsDomain: 'x.test', diskMbPer256Mb: 10, claim: () => claim })

type Call = (records: Records, operation: LaneOperation) => Promise<unknown>

/** Activities that write, and are therefore refused for a run that has lost the operation. */
const fencedSteps = {
  recordStep: (records, { id }) => records.recordStep(id, 'late'),
  waitForSlot: (records, operation) => records.waitForSlot(operation),
  recordChange: (records, { id }) => records.recordChange(id),
  recordReturn: (records, operation) => records.recordReturn(operation),
  beginChange: (records, operation) => records.beginChange(operation),
  serving: (records, operation) => records.serving(operation),
  adoptConfig: (records, operation) => records.adoptConfig(operation),
  revertConfig: (records, operation) => records.revertConfig(operation),
  filesServe: (records, operation) => records.filesServe(operation),
  deployFailed: (records, operation) => records.deployFailed(operation, failure),
  recordStatus: (records, { id, release }) =>
    records.recordStatus(release.appId, 'exited', { operationId: id, words: 'late' }),
  releaseServes: (records, operation) => records.releaseServes(operation, started),
  releaseFailed: (records, operation) => records.releaseFailed(operation, exit, failure),
  provisioningFailed: (records, operation) => records.provisioningFailed(operation, failure),
  recordDesired: (records, operation) => records.recordDesired(operation, 'stopped'),
  appStarted: (records, operation) => records.appStarted(operation, started),
  appServes: (records, operation) => records.appServes(operation, started),
  appStopped: (records, operation) => records.appStopped(operation, exit),
  recordStarted: (records, operation) => records.recordStarted(operation, 7, started),
  recordStopped: (records, operation) => records.recordStopped(operation, exit),
  appDeleted: (records, operation) => records.appDeleted(operation),
  releaseStands: (records, operation) => records.releaseStands(operation),
  snapshotFailed: (records, operation) => records.snapshotFailed(operation, failure),
  snapshotTaken: async (records, operation) => {
    const segmentId = await segments.allocateSegment((await database).db)
    return records.snapshotTaken(operation, { segmentId, size: 1, sha256: 'a'.repeat(64), digest: 'd' })
  },
} satisfies Partial<Record<keyof Records, Call>>

/** Activities that need no fence, with the reason. */
const unfencedSteps: Partial<Record<keyof Records, string>> = {
  claimNext: 'takes the claim',
  decideAgain: 'only reads',
  toEnd: 'only reads',
  secondsLeft: 'only reads',
  keepSnapshotPlace: 'a place carries its operation, and runs out by time',
  leaveSnapshotPlace: 'gives back the place of its own operation only',
  finish: 'is fenced, and keeps silent: it is the last word of a lane, and has nobody to tell',
}

test.serial('every record activity is fenced, or listed with the reason why it need not be', async t => {
  const all = Object.keys(as((await database).db, { run: 'r', step: 1 }))
  t.deepEqual([...Object.keys(fencedSteps), ...Object.keys(unfencedSteps)].sort(), all.sort())
})

/** An application whose operation of this kind runs, claimed by run `new` at step 5, with a deployment and a snapshot. */
async function claimed(kind: OperationKind = 'create') {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  const { app, operationId } = await make.app(user.id, { autorestart: true })
  const ask = (request: OperationKind) =>
    enqueueOperation(db, { targetId: app.id, kind: request, ownerId: user.id, actor: user.id })
  let id = operationId
  if (kind !== 'create') {
    await db('operations').where({ id }).update({ state: 'success' })
    id = (await ask(kind)).id
  }
  await db('snapshots').insert({
    id: newVersionId(),
    target_id: app.id,
    owner_id: user.id,
    operation_id: id,
    name: 'shop',
    origin: 'manual',
  })
  const operation = (await as(db, { run: 'new', step: 5 }).claimNext(app.id, { underWay: [] }))!
  const everything = async () => {
    const of = (table: string, column: string) =>
      db(table)
        .where({ [column]: app.id })
        .orderBy('id')
    const all = [
      of('apps', 'id'),
      of('operations', 'target_id'),
      of('deployments', 'app_id'),
      of('snapshots', 'target_id'),
    ]
    return JSON.stringify(await Promise.all(all))
  }
  return { db, app, id, operation, everything, ask }
}

const isLost = (error: unknown) => error instanceof ApplicationFailure && error.type === claimLost

for (const [name, call] of Object.entries(fencedSteps))
  test(`${name} of a run that has lost its operation writes nothing`, async t => {
    const { db, operation, everything, id } = await claimed()
    t.is(operation.id, id)
    const before = await everything()
    const lost = (error: unknown) => isLost(error)
    const late = as(db, { run: 'old', step: 9 })
    const error = await t.throwsAsync(call(late, operation))
    t.true(lost(error), String(error))
    await late.finish(id, { state: 'error', ...failure })
    t.is(await everything(), before)
    const now = await call(as(db, { run: 'new', step: 6 }), operation).then(
      () => null,
      error => error,
    )
    t.false(lost(now), 'the run that works on it may')
  })

test.serial(
  'a start that is recorded late, after a stop, changes nothing: neither its row nor AUTORESTART',
  async t => {
    const { db, app, operation, ask, everything } = await claimed('start')
    await as(db, { run: 'new', step: 7 }).appStarted(operation, { ...started, containerId: 'c1' })
    await ask('stop')
    const stop = (await as(db, { run: 'new', step: 8 }).claimNext(app.id, { underWay: [] }))!
    t.is(stop.kind, 'stop')
    await as(db, { run: 'new', step: 9 }).recordDesired(stop, 'stopped')
    await as(db, { run: 'new', step: 11 }).appStopped(stop, exit)
    const before = await everything()
    // From the worker that froze just before it wrote: the same run of the lane, at the same step.
    await as(db, { run: 'new', step: 7 }).appStarted(operation, started)
    await as(db, { run: 'new', step: 6 }).recordDesired(operation, 'running')
    await t.throwsAsync(as(db, { run: 'old', step: 7 }).appStarted(operation, started), {
      message: /no longer works on/,
    })
    t.is(await everything(), before)
    const container = {
      ...{
        id: 'late',
        name: `berth-${app.id}-${operation.release.number}`,
        status: 'exited' as const,
        running: false,
        exitCode: 1,
      },
      ...{ oom: false, startedAt: new Date(Date.now() - 120_000), finishedAt: new Date(), hostPort: null },
      hostAddress: null,
      address: null,
      labels: { [labels.host]: 'h1', [labels.app]: app.id, [labels.release]: String(operation.release.number) },
    }
    const engine = new FakeContainerHost()
    engine.put(container)
    const volumes = { list: async () => [] } as never
    const watch = {
      db,
      engine,
      volumes,
      locks: appLocks(),
      hostId: 'h1',
      boot: inBoot('late-boot'),
      log: pino({ level: 'silent' }),
    }
    await reconcile(watch)
    t.like(await loadApp(db, app.id), { status: 'exited', desired_state: 'stopped' })
    t.is((await db('operations').where({ target_id: app.id, state: 'queued' })).length, 0)
  },
)

test.serial('an operation of a lost run is taken over by the next one, and never returned', async t => {
  const { db, app, operation, id } = await claimed('start')
  const next = as(db, { run: 'newer', step: 2 })
  t.is((await next.claimNext(app.id, { underWay: [] }))?.id, id)
  const late = as(db, { run: 'new', step: 6 })
  t.true(isLost(await t.throwsAsync(late.appStarted(operation, started))))
  t.is(await late.claimNext(app.id, { underWay: [] }), null)
  t.is((await next.claimNext(app.id, { underWay: [] }))?.id, id, 'it still is the one of the newer run')
  await as(db, { run: 'newer', step: 3 }).appStarted(operation, started)
  t.like(await findOperation(db, id), { state: 'success' })
})

test.serial('a lane whose worker died repeats its last steps in order, and continues', async t => {
  const { db, app, operation, id } = await claimed('start')
  const lane = (step: number) => as(db, { run: 'new', step })
  await lane(6).recordStep(id, 'one')
  await lane(7).recordStep(id, 'two')
  await lane(6).recordStep(id, 'one')
  await lane(7).recordStep(id, 'two')
  await lane(8).appStarted(operation, started)
  for (const step of [6, 7]) await lane(step).recordStep(id, 'again')
  await lane(8).appStarted(operation, { ...started, containerId: 'another' })
  t.is(await lane(9).claimNext(app.id, { underWay: [] }), null)
  t.like(await findOperation(db, id), { state: 'success', step: 'two' })
  t.is((await loadApp(db, app.id))?.container_id, 'late')
})

test.serial('of two runs that claim concurrently, only one works on an application', async t => {
  for (let round = 0; round < 10; round++) {
    const { db, app, operation, ask } = await claimed('start')
    await as(db, { run: 'new', step: 6 }).appStarted(operation, started)
    await Promise.all([ask('stop'), ask('start'), ask('deploy')])
    const runs = ['one', 'two', 'three']
    await Promise.all(runs.map(run => as(db, { run, step: 1 }).claimNext(app.id, { underWay: [] })))
    const running = await db('operations').where({ target_id: app.id, state: 'running' }).select('id', 'claim')
    t.is(new Set(running.map(row => row.claim)).size, 1, JSON.stringify(running))
    const writes = runs.flatMap(run => running.map(({ id }) => as(db, { run, step: 2 }).recordStep(id, run)))
    const written = (await Promise.allSettled(writes)).filter(({ status }) => status === 'fulfilled')
    t.is(written.length, running.length)
  }
})

test.serial(
  'an operation that an older version has begun has no claim, and becomes that of the run that goes on with it',
  async t => {
    const { db, operation, id } = await claimed('start')
    await db('operations').where({ id }).update({ claim: null, claim_step: 0 })
    await as(db, { run: 'old', step: 30 }).recordStep(id, 'goes on')
    t.like(await db('operations').where({ id }).first(), { step: 'goes on', claim: 'old' })
    await t.throwsAsync(as(db, { run: 'new', step: 31 }).appStarted(operation, started))
    await as(db, { run: 'old', step: 32 }).appStarted(operation, started)
    t.like(await findOperation(db, id), { state: 'success' })
    await db('operations').where({ id }).update({ claim: null })
    await t.notThrowsAsync(as(db, { run: 'old', step: 32 }).appStarted(operation, started), 'and so is its repetition')
  },
)
