import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { appHostActivities } from '../../../activities/app-host.ts'
import { labels } from '../../../activities/containers/port.ts'
import { appContainerName } from '../../../activities/containers/spec.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { VolumeLost, type Volumes } from '../../../activities/volumes/port.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import type { Db } from '../../../db/database.ts'
import { openDeployment } from '../../../db/deploys/deployments.ts'
import { claimNextOperationFor, holdClaim } from '../../../db/operations/operation-claims.ts'
import { enqueueOperation, finishOperation, type OperationKind } from '../../../db/operations/operations.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { inBoot } from '../../kit/hosts/boots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const folder = mkdtempSync(join(tmpdir(), 'berth-start-'))
test.after.always('remove the folder', () => rmSync(folder, { recursive: true, force: true }))
test.before('a host that answers however long this takes', async () => {
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

/** An engine whose images arrive on demand; records its calls and the max number of versions that ran concurrently. */
class SlowEngine extends FakeContainerHost {
  readonly calls: string[] = []
  most = 0
  waiting = 0
  let = () => {}
  readonly #pulled = new Promise<void>(resolve => {
    this.let = resolve
  })

  override async ensureImage(): Promise<void> {
    this.waiting++
    await this.#pulled
  }

  override async create(spec: Parameters<FakeContainerHost['create']>[0]): Promise<string> {
    this.calls.push(`create ${spec.labels[labels.release]}`)
    return super.create(spec)
  }

  override async start(name: string) {
    this.calls.push(`start ${name.split('-').at(-1)}`)
    const state = await super.start(name)
    this.most = Math.max(this.most, (await this.list({})).filter(({ running }) => running).length)
    return state
  }
}

/** A program without a port that is stopped, and its host. */
async function scene() {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  const { app, operationId } = await make.app(user.id, { subdomain: null })
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ release: 1 })
  const engine = new SlowEngine()
  const unused = {} as never
  const removed: string[] = []
  const disk = { isLost: false, isReadOnly: false, refusals: 0 }
  const runs = async () => (await engine.list({})).some(({ running }) => running)
  const activities = appHostActivities({
    ...{
      db,
      engine,
      archives: unused,
      store: unused,
      placement: unused,
      snapshots: unused,
      git: unused,
      gitLimits: unused,
    },
    volumes: {
      path: () => folder,
      ensure: async (...[id, , , made]: Parameters<Volumes['ensure']>) => {
        if (disk.isLost && made === 'before') throw new VolumeLost(id)
        if (disk.isReadOnly && (await runs())) {
          disk.refusals++
          throw new Error('The volume is read-only.')
        }
        disk.isReadOnly = false
      },
      waits: async () => disk.isReadOnly,
      remove: async (id: string) => void removed.push(id),
    } as never,
    traits: { id: 'h1', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
    healthGateSeconds: 1,
    locks: appLocks(),
    credentials: async () => null,
    variables: async () => ({ version: 0, values: {} }),
    sharedUid: 1000,
    boot: inBoot('boot'),
    appsDomain: 'apps.test',
    diskMbPer256Mb: 10,
  })
  const releaseOf = (number: number, id?: string): Release => ({
    ...{
      appId: app.id,
      ownerId: user.id,
      hostId: 'h1',
      hostAddress: '127.0.0.1',
      number,
      uid: 1000,
      ramMb: 256,
      reservedMb: 256,
      cpus: 1,
    },
    ...{ diskMb: 10, language: 'javascript', runtimeVersion: '22', main: 'index.js', start: null, hostname: null },
    ...{ source: null, path: '', restart: true, deploymentId: null, operationId: id },
  })
  /** The operation of this kind runs from step `step` of its lane. */
  const begin = async (kind: OperationKind, step: number) => {
    const { id } = await enqueueOperation(db, { targetId: app.id, kind, ownerId: user.id, actor: user.id })
    const deployment = {
      appId: app.id,
      operationId: id,
      release: 2,
      source: 'upload',
      revision: '',
      segmentId: null,
    } as const
    if (kind === 'deploy') await openDeployment(db, deployment)
    return (await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step }, []))!.id
  }
  return { db, app, engine, activities, releaseOf, begin, removed, disk }
}

test('leftovers of a deletion are removed after its operation has ended, but nothing of an existing application', async t => {
  const { db, app, activities, releaseOf, begin, removed } = await scene()
  const id = await begin('delete', 1)
  const remove = (step: number) => asActivity({ run: 'lane', step }, () => activities.removeFiles(releaseOf(1, id)))
  await fails(db, id)
  await t.throwsAsync(remove(2), { message: /is not deleted yet/ })
  t.deepEqual(removed, [])
  await removeApp(db, app.id)
  await remove(3)
  t.deepEqual(removed, [app.id])
})

test('an application whose disk is lost is not started with an empty one', async t => {
  const { engine, activities, releaseOf, begin, disk } = await scene()
  engine.let()
  disk.isLost = true
  const id = await begin('start', 1)
  const start = asActivity({ run: 'lane', step: 2 }, () => activities.startApp(releaseOf(1, id), { mustStand: true }))
  await t.throwsAsync(start, { message: /are no longer at its host/ })
  t.deepEqual(engine.calls, [])
})

const fails = (db: Db, id: string) => finishOperation(db, id, { state: 'error', code: 'ACTION_FAILED' })

for (const cancelled of [true, false])
  test(`a start that was given up during its image pull starts nothing after the next deploy${cancelled ? '' : ', even if the host was not notified'}`, async t => {
    const { db, engine, activities, releaseOf, begin } = await scene()
    const start = await begin('start', 1)
    const givenUp = new AbortController()
    const old = asActivity(
      { run: 'lane', step: 2 },
      () => activities.startApp(releaseOf(1, start), { mustStand: true }),
      givenUp.signal,
    )
    await comesTrue(() => engine.waiting === 1)
    // Its caller no longer waits; the owner pushes, and since nothing runs, nothing is stopped.
    await fails(db, start)
    if (cancelled) givenUp.abort()
    const deploy = await begin('deploy', 4)
    const fresh = asActivity({ run: 'lane', step: 6 }, () => activities.startRelease(releaseOf(2, deploy)))
    await comesTrue(() => engine.waiting === 2)
    engine.let()
    await Promise.all([t.throwsAsync(old), fresh])
    t.deepEqual(engine.calls, ['create 2', 'start 2'])
    t.is(engine.most, 1)
  })

test('a start that is given up while the engine starts it does not run alongside the next version', async t => {
  const { db, engine, activities, releaseOf, begin } = await scene()
  engine.let()
  const start = await begin('start', 1)
  const startNow = engine.start.bind(engine)
  // The engine starts it, and its operation ends before that is reported.
  engine.start = async name => {
    const state = await startNow(name)
    engine.start = startNow
    await fails(db, start)
    return state
  }
  await asActivity({ run: 'lane', step: 2 }, () => activities.startApp(releaseOf(1, start), { mustStand: true }))
  const deploy = await begin('deploy', 4)
  await asActivity({ run: 'lane', step: 6 }, () => activities.startRelease(releaseOf(2, deploy)))
  t.deepEqual(engine.calls, ['create 1', 'start 1', 'create 2', 'start 2'])
  t.is(engine.most, 1, 'the old one was ended first')
  t.false((await engine.inspect(appContainerName(releaseOf(1))))?.running)
})

for (const [verb, made] of [
  ['stop', []],
  ['create', ['create 1']],
] as const)
  test.serial(`a start that is given up during the engine’s ${verb} stops there`, async t => {
    const { db, engine, activities, releaseOf, begin } = await scene()
    engine.let()
    // A version that failed keeps running.
    const deploy = await begin('deploy', 1)
    await asActivity({ run: 'lane', step: 2 }, () => activities.startRelease(releaseOf(2, deploy)))
    await fails(db, deploy)
    engine.calls.length = 0
    const start = await begin('start', 4)
    const now = engine[verb].bind(engine) as (...args: unknown[]) => Promise<never>
    engine[verb] = async (...args: unknown[]) => {
      const done = await now(...args)
      await fails(db, start)
      return done
    }
    const old = asActivity({ run: 'lane', step: 5 }, () =>
      activities.startApp(releaseOf(1, start), { mustStand: true }),
    )
    await t.throwsAsync(old, { message: /no longer works on/ })
    t.deepEqual(engine.calls, [...made])
  })

test('a restart that is given up while the engine stops its container starts nothing, and says how that ended', async t => {
  const { db, engine, activities, releaseOf, begin } = await scene()
  engine.let()
  const start = await begin('start', 1)
  await asActivity({ run: 'lane', step: 2 }, () => activities.startApp(releaseOf(1, start), { mustStand: true }))
  await finishOperation(db, start, { state: 'success' })
  engine.calls.length = 0
  const id = await begin('restart', 4)
  const stop = engine.stop.bind(engine)
  engine.stop = async (...args) => {
    await stop(...args)
    await fails(db, id)
  }
  const terms = { mustRun: false, thenStart: true } as const
  const restart = asActivity({ run: 'lane', step: 5 }, () => activities.stopApp(releaseOf(1, id), terms))
  const failure = await t.throwsAsync<ApplicationFailure>(restart, { message: /no longer works on/ })
  t.like(failure.details?.[0], { code: 143 })
  t.deepEqual(engine.calls, [])
})

test('a restart makes its start ready while the container ends, and does not wait with the end', async t => {
  const { db, engine, activities, releaseOf, begin } = await scene()
  const start = await begin('start', 1)
  const started = asActivity({ run: 'lane', step: 2 }, () =>
    activities.startApp(releaseOf(1, start), { mustStand: true }),
  )
  await comesTrue(() => engine.waiting === 1)
  engine.let()
  await started
  await finishOperation(db, start, { state: 'success' })
  const id = await begin('restart', 4)
  const stop = engine.stop.bind(engine)
  // The image is looked for before the engine has ended the container.
  engine.stop = async (...args) => {
    await comesTrue(() => engine.waiting === 2)
    await stop(...args)
  }
  const terms = { mustRun: false, thenStart: true } as const
  const restarted = await asActivity({ run: 'lane', step: 5 }, () => activities.stopApp(releaseOf(1, id), terms))
  t.truthy(restarted.started)
  t.deepEqual(engine.calls, ['create 1', 'start 1', 'start 1'], 'the container stays the same')
})

test('a restart repairs a disk that no program could write to, once its container has ended', async t => {
  const { db, engine, activities, releaseOf, begin, disk } = await scene()
  engine.let()
  const start = await begin('start', 1)
  await asActivity({ run: 'lane', step: 2 }, () => activities.startApp(releaseOf(1, start), { mustStand: true }))
  await finishOperation(db, start, { state: 'success' })
  disk.isReadOnly = true
  const id = await begin('restart', 4)
  const stop = engine.stop.bind(engine)
  // What the start needs is looked at before the engine has ended the container.
  engine.stop = async (...args) => {
    await comesTrue(() => disk.refusals > 0)
    await stop(...args)
  }
  const terms = { mustRun: false, thenStart: true } as const
  const restarted = await asActivity({ run: 'lane', step: 5 }, () => activities.stopApp(releaseOf(1, id), terms))
  t.truthy(restarted.started)
  t.false(disk.isReadOnly)
})

test('a step of a run that has lost its operation has no effect at the host', async t => {
  const { db, engine, activities, releaseOf, begin } = await scene()
  engine.let()
  const id = await begin('deploy', 1)
  t.is(await db.transaction(trx => holdClaim(trx, id, { run: 'lane', step: 8 })), 'held')
  const release = releaseOf(2, id)
  const steps: Record<string, () => Promise<unknown>> = {
    prepareRelease: () => activities.prepareRelease(release),
    placeFiles: () => activities.placeFiles(release),
    restoreFiles: () => activities.restoreFiles(release),
    startRelease: () => activities.startRelease(release),
    startApp: () => activities.startApp(release, { mustStand: false }),
    stopApp: () => activities.stopApp(release, { mustRun: false, thenStart: true }),
    removeContainers: () => activities.removeContainers(release),
    removeFiles: () => activities.removeFiles(release),
    lendDependencies: () => activities.lendDependencies(release, release),
  }
  for (const claim of [
    { run: 'lane', step: 7 },
    { run: 'another', step: 9 },
  ])
    for (const [name, step] of Object.entries(steps))
      await t.throwsAsync(asActivity(claim, step), { message: /no longer works on/ }, name)
  t.deepEqual(engine.calls, [])
  await t.notThrowsAsync(asActivity({ run: 'lane', step: 9 }, () => activities.startRelease(release)))
})
