import test from 'ava'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { portions } from '../../kit/crash/crash-portions.ts'
import { hostCases, stepCases } from '../../kit/crash/databases/cases.ts'
import type { Kind } from '../../kit/crash/databases/rental.ts'
import { databaseStage } from '../../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../../kit/crash/databases/story.ts'

// What differs between engines: creations, rotations and restores, of Postgres also to a moment. The host dies before and after each effect;
// the engine, or the power, in the middle of each step.
const kindsOf: Partial<Record<EngineName, Kind[]>> = {
  postgres: ['create', 'rotate', 'restore', 'moment'],
  mysql: ['create', 'rotate', 'restore'],
  mongo: ['create', 'rotate', 'restore'],
}
const engines = Object.keys(kindsOf) as EngineName[]
const started = databaseStage(...engines)
const rentals: Rentals = []

for (const engine of engines)
  for (const kind of kindsOf[engine]!)
    for (const cases of [
      hostCases(engine, [kind]),
      stepCases('engine', engine, [kind]),
      stepCases('power', engine, [kind]),
    ])
      for (const portion of portions(cases, 3))
        test.serial(
          `${engine}, ${kind}, ${cases[0]!.victim}: ${portion.map(({ point }) => point).join(', ')}`,
          async t => {
            t.timeout(900_000)
            await survive(t, await started, rentals, portion)
          },
        )
