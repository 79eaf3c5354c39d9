import test from 'ava'
import { around, portions } from '../kit/crash/crash-portions.ts'
import { restoresSurvive, snapshotsSurvive, workerSurvives } from '../kit/crash/snapshot-crash-kit.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'

// Every point before and after each side effect of snapshots and restores; a choice of them runs in test/crash on every change.
const started = testPlatform({ hosts: {}, worker: false })
let worker: { stop(): Promise<void> }

const lasting = 10 * 60_000

test.serial.before('a worker in this process, and a bundle for those that die', async t => {
  t.timeout(120_000)
  const platform = await started
  platform.base.settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
  worker = await platform.startWorker()
})

const snapshotPoints = around(
  ...['host.takeSnapshot', 'snapshots.make', 'engine.pause', 'engine.unpause', 'store.put', 'store.open'],
  'snapshots.verify',
)

for (const points of portions(snapshotPoints))
  test.serial(`hosts during a snapshot: ${points.join(', ')}`, async t => {
    t.timeout(lasting)
    await snapshotsSurvive(t, await started, points)
  })

const restorePoints = around(
  ...['host.prepareRelease', 'snapshots.unpack', 'host.placeFiles', 'placement.place', 'host.startRelease'],
  ...['engine.create', 'engine.start', 'host.passHealthGate', 'host.stopApp', 'engine.stop', 'host.removeContainer'],
  ...['engine.remove', 'host.settleFiles', 'placement.settle'],
)

for (const points of portions(restorePoints))
  test.serial(`hosts during a restore: ${points.join(', ')}`, async t => {
    t.timeout(lasting)
    await restoresSurvive(t, await started, points)
  })

test.serial('the following tests use worker processes that die', async t => {
  await worker.stop()
  await (await started).startHost('a')
  t.pass()
})

for (const point of around('records.claimNext', 'records.recordStep', 'records.snapshotTaken'))
  test.serial(`the worker during a snapshot: ${point}`, async t => {
    t.timeout(lasting)
    await workerSurvives(t, await started, { kind: 'snapshot', point })
  })

for (const point of around(
  ...['records.claimNext', 'records.decideAgain', 'records.beginChange'],
  ...['edge.setRoute', 'records.releaseServes'],
))
  test.serial(`the worker during a restore: ${point}`, async t => {
    t.timeout(lasting)
    await workerSurvives(t, await started, { kind: 'restore', point })
  })
