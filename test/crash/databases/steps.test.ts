import test from 'ava'
import type { Case, Victim } from '../../kit/crash/databases/cases.ts'
import type { Kind } from '../../kit/crash/databases/rental.ts'
import { databaseStage } from '../../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../../kit/crash/databases/story.ts'

// A choice of the cases of test/long/databases-*.test.ts: operations side by side, each on a host of its own, and one death for all.
const started = databaseStage('redis')
const rentals: Rentals = []

/** Creations have no database before, so they do not mix with others. */
const choice: [Victim, [Kind, string][]][] = [
  [
    'host',
    [
      ['create', 'database-engine.start:after'],
      ['create', 'databases.proveLogin:before'],
    ],
  ],
  [
    'host',
    [
      ['rotate', 'databases.locally:after'],
      ['snapshot', 'snapshots.unpack:after'],
      ['restore', 'host.stopDatabase:after'],
    ],
  ],
  [
    'engine',
    [
      ['rotate', 'databases.locally:before'],
      ['resize', 'database-engine.stop:after'],
      ['restore', 'host.stopDatabase:after'],
    ],
  ],
  [
    'Postgres',
    [
      ['rotate', 'databases.proveLogin:before'],
      ['certify', 'databases.settle:after'],
      ['restore', 'databases.proveLogin:before'],
    ],
  ],
  [
    'emptied Temporal',
    [
      ['rotate', 'databases.locally:before'],
      ['stop', 'database-engine.stop:before'],
      ['snapshot', 'databases.locally:after'],
    ],
  ],
  [
    'Temporal',
    [
      ['rotate', 'databases.proveLogin:before'],
      ['start', 'database-engine.start:after'],
      ['resize', 'database-engine.start:after'],
    ],
  ],
  [
    'worker',
    [
      ['rotate', 'databases.locally:before'],
      ['certify', 'databases.proveLogin:before'],
      ['restore', 'databases.locally:after'],
    ],
  ],
  [
    'replaced host',
    [
      ['rotate', 'databases.locally:before'],
      ['resize', 'database-engine.start:after'],
      ['delete', 'database-engine.remove:before'],
    ],
  ],
]

for (const [victim, cases] of choice)
  test.serial(`${victim} dies in ${cases.map(([kind, point]) => `a ${kind} at ${point}`).join(', ')}`, async t => {
    t.timeout(1_500_000)
    const all = cases.map(([kind, point]): Case => ({ kind, point, victim }))
    await survive(t, await started, rentals, all)
  })
