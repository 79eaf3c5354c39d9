import test from 'ava'
import { defaultPlans, parsePlans, planOf } from '../../policy/accounts/plans.ts'
import { type Counted, countersOf } from '../../policy/counters.ts'
import { limits } from '../../policy/limits.ts'

const plan = defaultPlans.get('hobby-1')!
const who: Counted = { user: { id: '1', plan }, appId: 'a', scale: 1, budgetBlockSeconds: 1800 }

test('a request increments its own counters and the budget, in one order', t => {
  t.deepEqual(countersOf('apps.logs', limits['apps.logs'], who), [
    { key: 'apps.logs/user+app/1/a/5', allow: 1, perSeconds: 5, blockSeconds: 0, code: 'KEEP_CALM' },
    { key: 'apps.logs/user/1/10', allow: 20, perSeconds: 10, blockSeconds: 30, code: 'KEEP_CALM' },
    { key: 'budget/1', allow: 60, perSeconds: 60, blockSeconds: 1800, code: 'RATE_LIMIT' },
  ])
})

test('linking and unlinking share one counter of an account', t => {
  const keys = (name: 'apps.link' | 'apps.unlink') => countersOf(name, limits[name], who).map(counter => counter.key)
  t.deepEqual(keys('apps.link'), ['apps.link/user/1/60', 'budget/1'])
  t.deepEqual(keys('apps.unlink'), keys('apps.link'))
})

test('start, stop and restart share the limit of an account, and not that of an application', t => {
  const keys = (name: 'apps.start' | 'apps.stop') => countersOf(name, limits[name], who).map(counter => counter.key)
  t.deepEqual(keys('apps.start'), ['apps.power/user/1/15', 'apps.start/app/a/3', 'budget/1'])
  t.deepEqual(keys('apps.stop'), ['apps.power/user/1/15', 'apps.stop/app/a/3', 'budget/1'])
})

test('an outside address has 300 requests a minute, and a larger plan its own budget alone', t => {
  const allowed = (name: string) =>
    countersOf('x', [], { ...who, user: { id: '1', plan: defaultPlans.get(name)! }, outsideAddress: '192.0.2.1' }).map(
      ({ key, allow }) => [key, allow],
    )
  t.deepEqual(allowed('hobby-1').at(-1), ['outside/192.0.2.1', 300])
  t.deepEqual(allowed('enterprise-96'), [['budget/1', 1200]])
  t.deepEqual(
    countersOf('x', [], { scale: 1, budgetBlockSeconds: 1, outsideAddress: '192.0.2.1' }).map(c => c.allow),
    [300],
  )
})

test('the scale multiplies counts, never windows', t => {
  const [counter] = countersOf('x', [], { ...who, scale: 2.5 })
  t.is(counter?.allow, 150)
  t.is(counter?.perSeconds, 60)
  t.is(countersOf('x', [], { ...who, scale: 0 })[0]?.allow, 1, 'at least one, or nothing could be called at all')
})

test('a plan that has ended, or is not in the table, counts as free', t => {
  const now = new Date('2030-01-01')
  const name = (plan: string, plan_ends_at: Date | null) => planOf(defaultPlans, { plan, plan_ends_at }, now).name
  t.is(name('pro-12', null), 'pro-12')
  t.is(name('pro-12', new Date('2030-01-02')), 'pro-12')
  t.is(name('pro-12', now), 'free')
  t.is(name('gone', null), 'free')
})

test("an operator's table is accepted completely, or refused with the name of the fault", t => {
  const row = {
    memoryMb: 1,
    requestsPerMinute: 2,
    blobGb: 3,
    snapshotsPerDay: 4,
    balancerGroups: 5,
    workspaces: 6,
    workspaceMembers: 7,
    historyDays: 1,
  }
  t.deepEqual([...parsePlans(JSON.stringify({ free: row, big: row })).keys()], ['free', 'big'])
  t.throws(() => parsePlans('[]'), { message: /not a JSON object/ })
  t.throws(() => parsePlans(JSON.stringify({ big: row })), { message: /"free"/ })
  t.throws(() => parsePlans(JSON.stringify({ free: { ...row, blobGb: -1 } })), {
    message: /"free": blobGb must be a whole number/,
  })
})
