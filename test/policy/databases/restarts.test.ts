import test from 'ava'
import { maxCrashes, planRestart, restartRules } from '../../../policy/databases/restarts.ts'

const now = new Date('2026-01-02T03:04:05.000Z')
const secondsUntil = (date: Date | null) => date && (date.getTime() - now.getTime()) / 1000

test('each crash in a row waits longer for its restart, and after the fifth the engine stays down', t => {
  let crashes = 0
  const waits: (number | null)[] = []
  for (let n = 0; n < 6; n++) {
    const plan = planRestart(crashes, 1000, now)
    crashes = plan.crashes
    waits.push(secondsUntil(plan.restartAt))
  }
  t.deepEqual(waits, [1, 5, 15, 60, null, null])
  t.is(maxCrashes, 5)
})

test('a crash after a run of 10 minutes is the first one again', t => {
  const steadyMs = restartRules.steadySeconds * 1000
  t.is(steadyMs, 600_000)
  t.deepEqual(planRestart(4, steadyMs, now), { crashes: 1, restartAt: new Date(now.getTime() + 1000) })
  t.deepEqual(planRestart(4, steadyMs - 1, now), { crashes: 5, restartAt: null })
})
