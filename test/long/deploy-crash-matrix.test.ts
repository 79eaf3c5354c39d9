import test from 'ava'
import { around, portions } from '../kit/crash/crash-portions.ts'
import { deploysSurvive, goesBack, webhookSurvives, workerDeploySurvives } from '../kit/crash/deploy-crash-kit.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'

// Every point before and after each side effect of a deploy; a choice of them runs in test/crash on every change.
const git = await startGitServer()
test.after.always('stop the git server', () => git.stop())
const started = testPlatform({ hosts: {}, worker: false, settings: { GIT_ALLOWED_HOSTS: git.host } })
let worker: { stop(): Promise<void> }

const lasting = 10 * 60_000

test.serial.before('a worker in this process, and a bundle for those that die', async t => {
  t.timeout(120_000)
  const platform = await started
  platform.base.settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
  worker = await platform.startWorker()
})

async function withHost() {
  const platform = await started
  if (!platform.hosts.has('a')) await platform.startHost('a')
  return platform
}

const hostPoints = around(
  ...['host.prepareRelease', 'git.fetch', 'host.installDependencies', 'engine.runToEnd'],
  ...[
    'host.placeFiles',
    'placement.place',
    'host.startRelease',
    'engine.create',
    'engine.start',
    'host.passHealthGate',
  ],
  ...['host.stopApp', 'engine.stop', 'host.removeContainer', 'engine.remove', 'host.settleFiles', 'placement.settle'],
)

for (const points of portions(hostPoints))
  test.serial(`hosts during a deploy: ${points.join(', ')}`, async t => {
    t.timeout(lasting)
    await deploysSurvive(t, await started, git, points)
  })

const undoPoints = around(
  ...['host.removeContainer', 'host.restoreFiles', 'placement.restore', 'host.startApp'],
  ...['host.discardRelease', 'placement.discard'],
)

for (const points of portions(undoPoints))
  test.serial(`hosts during a rollback: ${points.join(', ')}`, async t => {
    t.timeout(lasting)
    await deploysSurvive(t, await started, git, points, goesBack)
  })

for (const at of [
  { point: 'pushes.store:before', stored: false },
  { point: 'pushes.store:after', stored: true },
  { point: 'pushes.confirm:after', stored: true },
  { point: 'lanes.wake:before', stored: true },
])
  test.serial(`the API during a push: ${at.point}`, async t => {
    t.timeout(lasting)
    await webhookSurvives(t, await withHost(), git, at)
  })

test.serial('the following tests use worker processes that die', async t => {
  await worker.stop()
  t.pass()
})

const workerPoints = around(
  ...['records.claimNext', 'records.waitForSlot', 'records.decideAgain', 'records.beginChange'],
  ...['edge.setRoute', 'records.releaseServes', 'lanes.wake'],
)

for (const point of workerPoints)
  test.serial(`the worker during a deploy: ${point}`, async t => {
    t.timeout(lasting)
    await workerDeploySurvives(t, await withHost(), git, point)
  })

const workerUndoPoints = around(
  ...['records.recordReturn', 'records.revertConfig', 'records.recordStarted', 'records.deployFailed'],
)

for (const point of workerUndoPoints)
  test.serial(`the worker during a rollback: ${point}`, async t => {
    t.timeout(lasting)
    await workerDeploySurvives(t, await withHost(), git, point, goesBack)
  })
