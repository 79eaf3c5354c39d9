import test from 'ava'
import { portions } from '../kit/crash/crash-portions.ts'
import { hostCases } from '../kit/crash/databases/cases.ts'
import { databaseStage } from '../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../kit/crash/databases/story.ts'

// Every effect of a host on a database, before and after it; a choice of them runs in test/crash on every change.
const started = databaseStage('redis')
const rentals: Rentals = []
const atOnce = 5

const cases = hostCases('redis')
const kinds = [...new Set(cases.map(({ kind }) => kind))]

for (const kind of kinds)
  for (const portion of portions(
    cases.filter(one => one.kind === kind),
    atOnce,
  ))
    test.serial(`redis, ${kind}: hosts die at ${portion.map(({ point }) => point).join(', ')}`, async t => {
      t.timeout(900_000)
      await survive(t, await started, rentals, portion)
    })
