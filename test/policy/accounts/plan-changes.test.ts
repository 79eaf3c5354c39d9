import test from 'ava'
import { excessOf, type PlanUsage, planBelow } from '../../../policy/accounts/downgrades.ts'
import { defaultPlans, parsePlans } from '../../../policy/accounts/plans.ts'
import { areDatabasesSuspended, isSuspended } from '../../../policy/accounts/suspension.ts'

const nothing: PlanUsage = {
  ...{ memoryMb: 0, databases: 0, workspaces: 0, workspaceMembers: 0 },
  ...{ customDomains: 0, balancerGroups: 0, storedBytes: 0 },
}

test('the next lower plan is the row above, and never the free plan', t => {
  const below = (name: string) => planBelow(defaultPlans, name)
  t.deepEqual(['enterprise-24', 'standard-4', 'hobby-2'].map(below), ['pro-24', 'hobby-2', 'hobby-1'])
  t.deepEqual(['hobby-1', 'free', 'gone', ''].map(below), [null, null, null, null])
  const { free, 'hobby-2': small, 'pro-16': big } = Object.fromEntries(defaultPlans)
  const own = parsePlans(JSON.stringify({ small, free, big }))
  t.deepEqual([planBelow(own, 'big'), planBelow(own, 'small')], ['small', null], 'wherever "free" stands')
})

test('a plan fits an account within its limits, and no other', t => {
  const holds = (plan: string, usage: Partial<PlanUsage>) =>
    excessOf(defaultPlans.get(plan)!, { ...nothing, ...usage }) === null
  t.true(holds('standard-4', { memoryMb: 4096, workspaces: 3, workspaceMembers: 10, customDomains: 99 }))
  t.false(holds('standard-4', { memoryMb: 4097 }))
  t.false(holds('standard-4', { workspaces: 4 }))
  t.false(holds('standard-4', { workspaceMembers: 11 }))
  t.true(holds('hobby-2', { memoryMb: 2048 }))
  t.false(holds('hobby-2', { customDomains: 1 }))
  t.false(holds('hobby-2', { databases: 1 }))
  t.true(holds('standard-4', { databases: 99 }))
  const { balancerGroups, blobGb } = defaultPlans.get('standard-8')!
  t.deepEqual([balancerGroups, blobGb], [2, 100])
  t.true(holds('standard-8', { balancerGroups: 2, storedBytes: 100 * 2 ** 30 }))
  t.false(holds('standard-8', { balancerGroups: 3 }))
  t.is(
    excessOf(defaultPlans.get('standard-8')!, { ...nothing, storedBytes: 100 * 2 ** 30 + 1 }),
    'Your objects take 100.01 GB; the lower plan includes 100 GB.',
  )
})

test('an account is suspended by the end of its plan, not by its removal from the table', t => {
  const now = new Date()
  const at = (ms: number) => ({ plan_ends_at: new Date(now.getTime() + ms) })
  t.true(isSuspended(defaultPlans, at(0), 256, now))
  t.false(isSuspended(defaultPlans, at(1), 256, now))
  t.false(isSuspended(defaultPlans, { plan_ends_at: null }, 256, now))
  t.false(isSuspended(defaultPlans, at(-1), 0, now), 'it has nothing that could run')
  const free = { ...defaultPlans.get('free')!, memoryMb: 512 }
  const generous = new Map([...defaultPlans, ['free', free] as const])
  t.deepEqual(
    [512, 513].map(mb => isSuspended(generous, at(-1), mb, now)),
    [false, true],
  )
})

test('after the end of a plan databases are suspended unless the free plan includes them and has the memory', t => {
  const now = new Date()
  const ended = { plan_ends_at: new Date(now.getTime() - 1) }
  const withFree = (changes: { memoryMb: number; workspaces: number }) =>
    new Map([...defaultPlans, ['free', { ...defaultPlans.get('free')!, ...changes }] as const])
  t.true(areDatabasesSuspended(defaultPlans, ended, 512, now))
  t.true(areDatabasesSuspended(withFree({ memoryMb: 512, workspaces: 0 }), ended, 512, now))
  t.false(areDatabasesSuspended(withFree({ memoryMb: 512, workspaces: 1 }), ended, 512, now))
  t.true(areDatabasesSuspended(withFree({ memoryMb: 511, workspaces: 1 }), ended, 512, now))
  t.false(areDatabasesSuspended(defaultPlans, { plan_ends_at: null }, 512, now))
  t.false(areDatabasesSuspended(defaultPlans, { plan_ends_at: new Date(now.getTime() + 1) }, 512, now))
})
