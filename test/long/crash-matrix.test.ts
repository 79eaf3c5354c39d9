import test from 'ava'
import {
  commandsSurvive,
  creationsSurvive,
  workerCommandSurvives,
  workerCreationSurvives,
  workerFailureSurvives,
} from '../kit/crash/crash-kit.ts'
import { around, portions } from '../kit/crash/crash-portions.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'

// Every point before and after each side effect; a choice of them runs in test/crash on every change.

const started = testPlatform({ hosts: {}, worker: false })
const lasting = 600_000

const creation = [
  ...around('host.prepareRelease', 'volumes.ensure', 'archives.unpack'),
  ...around('host.installDependencies', 'engine.runToEnd', 'host.placeFiles', 'placement.place'),
  ...around('host.startRelease', 'engine.ensureNetwork', 'engine.ensureImage', 'engine.create', 'engine.start'),
  ...around('host.passHealthGate'),
]

const commands = (
  [
    ['stop', ['host.stopApp', 'engine.stop']],
    ['start', ['host.startApp', 'engine.start']],
    ['restart', ['host.stopApp', 'engine.stop', 'engine.start']],
    ['delete', ['host.removeContainers', 'engine.remove', 'host.removeFiles', 'volumes.remove']],
  ] as const
).flatMap(([verb, verbs]) => around(...verbs).map(point => [verb, point] as const))

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
  process.env.TEST_WORKFLOW_BUNDLE = base.settings.WORKFLOW_BUNDLE
})

let worker: Awaited<ReturnType<Awaited<typeof started>['startWorker']>>

test.serial('a worker starts', async t => {
  t.timeout(lasting)
  worker = await (await started).startWorker()
  t.pass()
})

for (const points of portions(creation, 4))
  test.serial(`hosts during a creation: ${points.join(', ')}`, async t => {
    t.timeout(lasting)
    await creationsSurvive(t, await started, points)
  })

for (const cases of portions(commands, 4))
  test.serial(`hosts during a command: ${cases.map(([verb, point]) => `${verb} ${point}`).join(', ')}`, async t => {
    t.timeout(lasting)
    await commandsSurvive(t, await started, cases)
  })

test.serial('the following tests use worker processes that die', async t => {
  await worker.stop()
  t.pass()
})

async function withHost() {
  const platform = await started
  if (!platform.hosts.has('a')) await platform.startHost('a')
  return platform
}

for (const point of around('records.claimNext', 'edge.setRoute', 'records.releaseServes', 'lanes.wake'))
  test.serial(`the worker during a creation: ${point}`, async t => {
    t.timeout(lasting)
    await workerCreationSurvives(t, await withHost(), point)
  })

for (const point of around('records.provisioningFailed'))
  test.serial(`the worker during a creation that fails: ${point}`, async t => {
    t.timeout(lasting)
    await workerFailureSurvives(t, await withHost(), point)
  })

const workerCommands = [
  ['stop', ['records.recordDesired', 'edge.removeRoute', 'records.appStopped']],
  ['start', ['edge.setRoute', 'records.appServes']],
  ['restart', ['records.claimNext']],
  ['delete', ['records.recordStatus', 'edge.removeRoute', 'records.appDeleted']],
] as const

for (const [verb, verbs] of workerCommands)
  for (const point of around(...verbs))
    test.serial(`the worker during a ${verb}: ${point}`, async t => {
      t.timeout(lasting)
      await workerCommandSurvives(t, await withHost(), verb, point)
    })
