import test from 'ava'
import { restoresSurvive, snapshotsSurvive } from '../kit/crash/snapshot-crash-kit.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const started = testPlatform({ hosts: {} })

test.serial('a host that dies in the middle of a snapshot: it is taken once, and the program continues', async t => {
  t.timeout(170_000)
  await snapshotsSurvive(t, await started, ['engine.pause:after', 'store.put:after', 'host.takeSnapshot:after'])
})

test.serial('a host that dies in the middle of a restore: every byte is restored, once', async t => {
  t.timeout(170_000)
  await restoresSurvive(t, await started, ['snapshots.unpack:after', 'placement.place:after', 'engine.start:after'])
})
