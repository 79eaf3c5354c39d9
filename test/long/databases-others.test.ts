import test from 'ava'
import { portions } from '../kit/crash/crash-portions.ts'
import { stepCases, type Victim } from '../kit/crash/databases/cases.ts'
import { databaseStage } from '../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../kit/crash/databases/story.ts'

// In the middle of each step of a database something dies that the step needs; a choice of them runs in test/crash on every change.
const started = databaseStage('redis')
const rentals: Rentals = []
const atOnce = 5

const victims: Victim[] = ['power', 'engine', 'worker', 'Postgres', 'Temporal', 'emptied Temporal', 'replaced host']

for (const victim of victims) {
  const cases = stepCases(victim, 'redis')
  const creations = cases.filter(({ kind }) => kind === 'create')
  const others = cases.filter(({ kind }) => kind !== 'create')
  for (const portion of [...portions(creations, atOnce), ...portions(others, atOnce)])
    test.serial(`redis, ${victim}: ${portion.map(({ kind, point }) => `${kind} at ${point}`).join(', ')}`, async t => {
      t.timeout(900_000)
      await survive(t, await started, rentals, portion)
    })
}
