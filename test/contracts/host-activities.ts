import type { SerialFn } from 'ava'
import type { Db } from '../../db/database.ts'
import { claimLost } from '../../policy/apps/claims.ts'
import { type StepName, stepKinds } from '../../policy/apps/step-kinds.ts'
import { newId } from '../../policy/ids.ts'
import { hostContainersContract } from './host-containers.ts'
import { hostFilesContract } from './host-files.ts'
import {
  type HostActivities,
  type HostUnderContract,
  type MakeScene,
  type Scene,
  type SceneKind,
  sceneOn,
} from './host-scene.ts'
import { hostSnapshotsContract } from './host-snapshots.ts'

/** A step as the lane of a scene requests it, or for another release number. */
type Asked = (scene: Scene, number?: number) => (activities: HostActivities) => Promise<unknown>

interface Row {
  kind: SceneKind
  /** While its operation runs; also after it has ended; or also when the lane has continued without it. */
  when: 'now' | 'after' | 'late'
  /** Whether the release number must be that of the operation. */
  exact: boolean
  ask: Asked
}

const of = ({ release }: Scene, number = release.number) => ({ ...release, number })

/** Every step of a host: in which operations, for how long, and for which release it may run. */
const steps: Record<StepName, Row> = {
  prepareRelease: { kind: 'deploy', when: 'now', exact: true, ask: (s, n) => a => a.prepareRelease(of(s, n)) },
  installDependencies: {
    kind: 'deploy',
    when: 'now',
    exact: true,
    ask: (s, n) => a => a.installDependencies(of(s, n)),
  },
  placeFiles: { kind: 'deploy', when: 'now', exact: true, ask: (s, n) => a => a.placeFiles(of(s, n)) },
  restoreFiles: { kind: 'deploy', when: 'now', exact: true, ask: (s, n) => a => a.restoreFiles(of(s, n)) },
  settleFiles: { kind: 'deploy', when: 'late', exact: true, ask: (s, n) => a => a.settleFiles(of(s, n)) },
  lendDependencies: {
    kind: 'deploy',
    when: 'now',
    exact: true,
    ask: (s, n) => a => a.lendDependencies(of(s, n), s.before),
  },
  discardRelease: { kind: 'deploy', when: 'late', exact: true, ask: (s, n) => a => a.discardRelease(of(s, n)) },
  startRelease: { kind: 'deploy', when: 'now', exact: true, ask: (s, n) => a => a.startRelease(of(s, n)) },
  passHealthGate: {
    kind: 'deploy',
    when: 'now',
    exact: true,
    ask: (s, n) => a => a.passHealthGate(of(s, n), { bootId: 'boot' }),
  },
  startApp: { kind: 'start', when: 'now', exact: true, ask: (s, n) => a => a.startApp(of(s, n), { mustStand: false }) },
  stopApp: { kind: 'stop', when: 'late', exact: false, ask: (s, n) => a => a.stopApp(of(s, n), { mustRun: false }) },
  removeContainer: { kind: 'deploy', when: 'late', exact: false, ask: (s, n) => a => a.removeContainer(of(s, n)) },
  removeContainers: { kind: 'delete', when: 'now', exact: false, ask: s => a => a.removeContainers(of(s)) },
  removeFiles: { kind: 'delete', when: 'after', exact: false, ask: s => a => a.removeFiles(of(s)) },
  awaitSnapshotPlace: {
    kind: 'snapshot',
    when: 'now',
    exact: false,
    ask: s => a => a.awaitSnapshotPlace(of(s), s.operationId),
  },
  takeSnapshot: { kind: 'snapshot', when: 'now', exact: false, ask: s => a => a.takeSnapshot(of(s), s.operationId) },
}

const lost = { type: claimLost, final: true }
const refused = { type: 'ACTION_FAILED', final: true }

/**
 * What lanes may rely on with every container host: the answer of a step, its failures, the effect of its repetition, and
 * what is left.
 */
export function hostActivitiesContract(
  test: SerialFn,
  name: string,
  { database, subject }: { database: Promise<{ db: Db }>; subject: () => Promise<HostUnderContract> },
): void {
  const scene: MakeScene = async (kind, terms) => sceneOn((await database).db, await subject(), kind, terms)

  for (const [step, { kind, when, exact, ask }] of Object.entries(steps) as [StepName, Row][])
    test(`${name}: ${step} is done only for the run and the release of its operation`, async t => {
      const it = await scene(kind)
      const { db, app, operationId, host } = it
      const before = await it.standing()
      t.like(await it.failure(ask(it), { run: 'another' }), lost)
      t.like(await it.failure(ask(it), { signal: AbortSignal.abort() }), { type: 'cancelled' })
      if (exact) t.like(await it.failure(ask(it, 7)), refused, 'a release that the operation is not about')
      const operation = db('operations').where({ id: operationId })
      const given = { up: { claim_step: 9 }, back: { claim_step: 1 } }
      if (when !== 'late') {
        await operation.clone().update(given.up)
        t.like(await it.failure(ask(it)), lost, 'the lane has continued without it')
        await operation.clone().update(given.back)
      }
      if (when === 'now') {
        await operation.clone().update({ state: 'success' })
        t.like(await it.failure(ask(it)), lost, 'its operation has ended')
        await operation.clone().update({ state: 'running' })
      }
      const elsewhere = `elsewhere-${newId()}`
      await db('hosts').insert({ id: elsewhere, address: '127.0.0.1', memory_mb: 0, disk_mb: 0 })
      await db('apps').where({ id: app.id }).update({ host_id: elsewhere })
      t.like(await it.failure(ask(it)), refused, 'an application of another host')
      await db('apps').where({ id: app.id }).update({ host_id: host.id })
      t.deepEqual(await it.standing(), before)
    })

  test(`${name}: an operation has only the steps of its kind`, async t => {
    t.is(Object.keys(steps).length, 16)
    const scenes = { start: await scene('start'), snapshot: await scene('snapshot') }
    for (const [step, { ask }] of Object.entries(steps) as [StepName, Row][])
      for (const [kind, it] of Object.entries(scenes)) {
        const kinds: readonly string[] = stepKinds[step]
        if (!kinds.includes(kind)) t.like(await it.failure(ask(it)), refused, `${step} of a ${kind}`)
      }
    t.deepEqual(await scenes.start.standing(), { containers: { 1: true }, files: 1, disk: true, busy: 0 })
  })

  hostContainersContract(test, name, scene)
  hostFilesContract(test, name, scene)
  hostSnapshotsContract(test, name, scene)
}
