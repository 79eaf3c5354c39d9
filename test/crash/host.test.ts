import test from 'ava'
import { commandsSurvive, creationsSurvive } from '../kit/crash/crash-kit.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const started = testPlatform({ hosts: {} })

test.serial('a host that dies in the middle of a creation: it ends as one running application', async t => {
  t.timeout(170_000)
  await creationsSurvive(t, await started, [
    'archives.unpack:after',
    'placement.place:after',
    'host.prepareRelease:after',
    'host.placeFiles:after',
    'engine.create:after',
    'engine.start:after',
    'host.passHealthGate:after',
  ])
})

test.serial('a host that dies in the middle of a command: its caller gets the true outcome', async t => {
  t.timeout(170_000)
  await commandsSurvive(t, await started, [
    ['stop', 'engine.stop:after'],
    ['start', 'engine.start:after'],
    ['restart', 'engine.stop:after'],
    ['restart', 'engine.start:after'],
    ['restart', 'host.stopApp:after'],
    ['delete', 'engine.remove:after'],
  ])
})
