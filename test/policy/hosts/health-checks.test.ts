import test from 'ava'
import {
  type CheckState,
  healthOf,
  isHealthyStatus,
  judge,
  ranLongEnough,
} from '../../../policy/hosts/health-checks.ts'

test('answers from 200 to 399 are healthy, redirects too', t => {
  t.deepEqual([199, 200, 204, 302, 399, 400, 404, 500, 503].filter(isHealthyStatus), [200, 204, 302, 399])
})

const judged: [string, CheckState, boolean, ReturnType<typeof judge>][] = [
  ['a first success', { status: null, failures: 0 }, true, { failures: 0, becomes: 'healthy', isDown: false }],
  ['a further success', { status: 'healthy', failures: 0 }, true, { failures: 0, becomes: null, isDown: false }],
  [
    'a success after two failures',
    { status: 'healthy', failures: 2 },
    true,
    { failures: 0, becomes: null, isDown: false },
  ],
  ['two failures', { status: 'healthy', failures: 1 }, false, { failures: 2, becomes: null, isDown: false }],
  ['three failures', { status: 'healthy', failures: 2 }, false, { failures: 3, becomes: 'unhealthy', isDown: true }],
  [
    'three failures of a program that never worked',
    { status: null, failures: 2 },
    false,
    { failures: 3, becomes: 'unhealthy', isDown: true },
  ],
  ['a fourth failure', { status: 'unhealthy', failures: 3 }, false, { failures: 4, becomes: null, isDown: true }],
  [
    'a success after them',
    { status: 'unhealthy', failures: 4 },
    true,
    { failures: 0, becomes: 'healthy', isDown: false },
  ],
  [
    'a failure that a new host process sees first',
    { status: 'unhealthy', failures: 0 },
    false,
    { failures: 1, becomes: null, isDown: false },
  ],
]

for (const [name, before, succeeded, expected] of judged)
  test(`judged: ${name}`, t => t.deepEqual(judge(before, succeeded), expected))

test('a run of up to 60 s is not ended by AUTORESTART', t => {
  const start = new Date()
  t.deepEqual(
    [60, 61].map(seconds => ranLongEnough(start, new Date(start.getTime() + seconds * 1000))),
    [false, true],
  )
})

test('health is null without a path, and unknown until it is decided and while nothing runs', t => {
  const health = { status: 'unhealthy', since: '2030-01-01T00:00:00.000Z', reason: '/ready answered 503' } as const
  const app = { status: 'running', health_path: '/ready', health, health_restart: null }
  t.is(healthOf({ ...app, health_path: null }), null)
  t.deepEqual(healthOf(app), { path: '/ready', ...health, restarted: null })
  const unknown = { path: '/ready', status: 'unknown', since: null, reason: null, restarted: null }
  t.deepEqual(healthOf({ ...app, health: null }), unknown as never)
  t.deepEqual(healthOf({ ...app, status: 'restarting' }), unknown as never)
})
