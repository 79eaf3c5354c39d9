import test from 'ava'
import { portions } from '../../kit/crash/crash-portions.ts'
import { hostCases, stepCases } from '../../kit/crash/databases/cases.ts'
import type { Kind } from '../../kit/crash/databases/rental.ts'
import { databaseStage } from '../../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../../kit/crash/databases/story.ts'

// Creations, rotations and restores of a MySQL: its host dies before and after each effect, and its engine in the middle of each step.
const started = databaseStage('mysql')
const rentals: Rentals = []
const kinds: Kind[] = ['create', 'rotate', 'restore']

for (const kind of kinds)
  for (const cases of [hostCases([kind]), stepCases('engine', [kind])])
    for (const portion of portions(cases, 3))
      test.serial(`mysql, ${kind}, ${cases[0]!.victim}: ${portion.map(({ point }) => point).join(', ')}`, async t => {
        t.timeout(900_000)
        await survive(t, await started, rentals, portion)
      })
