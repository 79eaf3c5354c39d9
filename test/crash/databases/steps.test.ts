import test from 'ava'
import type { EngineName } from '../../../policy/databases/engine.ts'
import type { Case, Victim } from '../../kit/crash/databases/cases.ts'
import type { Kind } from '../../kit/crash/databases/rental.ts'
import { databaseStage } from '../../kit/crash/databases/stage.ts'
import { type Rentals, survive } from '../../kit/crash/databases/story.ts'

// A choice of the cases of test/long/databases-*.test.ts: concurrent operations, each on a host of its own, and one death for all.
const started = databaseStage('redis', 'mongo')
const rentals: Rentals = []

/** Creations have no database before, so they do not mix with others. */
const choice: [Victim, [EngineName, Kind, string][]][] = [
  [
    'host',
    [
      ['mongo', 'create', 'database-engine.start:after'],
      ['redis', 'create', 'databases.proveLogin:before'],
    ],
  ],
  [
    'host',
    [
      ['mongo', 'rotate', 'databases.locally:after'],
      ['redis', 'snapshot', 'snapshots.unpack:after'],
      ['redis', 'restore', 'host.stopDatabase:after'],
    ],
  ],
  [
    'engine',
    [
      ['mongo', 'rotate', 'databases.locally:before'],
      ['redis', 'resize', 'database-engine.stop:after'],
      ['redis', 'restore', 'host.stopDatabase:after'],
    ],
  ],
  [
    'Postgres',
    [
      ['mongo', 'rotate', 'databases.proveLogin:before'],
      ['redis', 'certify', 'databases.settle:after'],
      ['redis', 'restore', 'databases.proveLogin:before'],
    ],
  ],
  [
    'emptied Temporal',
    [
      ['mongo', 'rotate', 'databases.locally:before'],
      ['redis', 'stop', 'database-engine.stop:before'],
      ['redis', 'snapshot', 'databases.locally:after'],
    ],
  ],
  [
    'Temporal',
    [
      ['mongo', 'rotate', 'databases.proveLogin:before'],
      ['redis', 'start', 'database-engine.start:after'],
      ['redis', 'resize', 'database-engine.start:after'],
    ],
  ],
  [
    'worker',
    [
      ['mongo', 'rotate', 'databases.locally:before'],
      ['redis', 'certify', 'databases.proveLogin:before'],
      ['redis', 'restore', 'databases.locally:after'],
    ],
  ],
  [
    'replaced host',
    [
      ['mongo', 'rotate', 'databases.locally:before'],
      ['redis', 'resize', 'database-engine.start:after'],
      ['redis', 'delete', 'database-engine.remove:before'],
    ],
  ],
]

for (const [victim, cases] of choice)
  test.serial(
    `${victim} dies in ${cases.map(([engine, kind, point]) => `a ${kind} of ${engine} at ${point}`).join(', ')}`,
    async t => {
      t.timeout(1_500_000)
      const all = cases.map(([engine, kind, point]): Case => ({ engine, kind, point, victim }))
      await survive(t, await started, rentals, all)
    },
  )
