import test, { type ExecutionContext } from 'ava'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { answered } from '../../kit/crash/databases/cases.ts'
import type { Kind } from '../../kit/crash/databases/rental.ts'
import { databaseStage } from '../../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../../kit/crash/databases/story.ts'

// Databases of all engines, each on a host of its own, on a disk that forgets what nobody synced when the power goes.
const started = databaseStage('redis', 'postgres', 'mysql', 'mongo')
const rentals: Rentals = []

type Step = readonly [Kind, point: string]

async function powerGoes(t: ExecutionContext, steps: Record<EngineName, Step>) {
  t.timeout(1_500_000)
  const cases = Object.entries(steps).map(([engine, [kind, point]]) => ({
    ...{ kind, point, victim: 'power' as const, engine: engine as EngineName },
  }))
  await survive(t, await started, rentals, cases)
}

/** The same for all engines. */
const all = (step: Step) => ({ redis: step, postgres: step, mysql: step, mongo: step })

test.serial('a power loss takes no database that was just created', t => powerGoes(t, all(['create', answered])))

// They serve and write until the power goes: the rows have the new password, the engines still the former one.
test.serial(
  'a power loss takes no write that was acknowledged, and leaves one password to a rotation in its middle',
  t => powerGoes(t, all(['rotate', 'databases.locally:before'])),
)

test.serial('a power loss takes no password that was just given', t => powerGoes(t, all(['rotate', answered])))

// Where the engine makes no difference, one stands for all.
test.serial('a power loss takes no certificate, contents or size of a database whose owner was just answered', t =>
  powerGoes(t, {
    redis: ['certify', answered],
    postgres: ['restore', answered],
    mysql: ['resize', answered],
    mongo: ['certify', answered],
  }),
)

test.serial(
  'a power loss in the switch of a restore, in a change of size or in a base backup: each ends as one thing',
  t =>
    powerGoes(t, {
      redis: ['restore', 'host.stopDatabase:after'],
      postgres: ['moment', 'base-backups.put:after'],
      mysql: ['resize', 'databases.settle:after'],
      mongo: ['resize', 'database-engine.start:after'],
    }),
)
