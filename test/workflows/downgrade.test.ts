import test from 'ava'
import { pino } from 'pino'
import { beginDowngrade, confirmDowngrade, findDowngrade } from '../../db/accounts/downgrades.ts'
import { defaultPlans as plans } from '../../policy/accounts/plans.ts'
import { downgradeRelay } from '../../workers/loops/overdue-relay.ts'
import { temporalDowngrades } from '../../workers/temporal/downgrades.ts'
import { downgradeId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { keepRun } from '../kit/platform/histories.ts'
import { laneKit } from './lane-kit.ts'

const kit = laneKit()

/** An account that has requested a downgrade, whose code is valid for `seconds`. */
async function started(seconds = 600) {
  const { db, client, make, queuePrefix } = await kit
  const user = await make.user('standard-6')
  await beginDowngrade(db, plans, user.id)
  const mine = () => db('downgrades').where({ user_id: user.id })
  await mine().update({ expires_at: new Date(Date.now() + seconds * 1000) })
  const { id } = await mine().first()
  const run = client.workflow.getHandle(downgradeId(user.id))
  return {
    user,
    run,
    downgrades: temporalDowngrades(client, { queuePrefix }),
    confirm: () => confirmDowngrade(db, plans, user.id, () => true),
    row: async () => (await findDowngrade(db, id))!,
    plan: async () => (await db('users').where({ id: user.id }).first()).plan,
    state: async () => (await run.describe()).status.name,
  }
}

test('a downgrade waits for its confirmation, and then takes the next lower plan', async t => {
  const { client } = await kit
  const { user, run, downgrades, confirm, row, plan, state } = await started()
  await downgrades.wake(user.id)
  t.deepEqual([await state(), await plan()], ['RUNNING', 'standard-6'])
  await confirm()
  await downgrades.wake(user.id)
  await run.result()
  t.deepEqual([(await row()).state, await plan()], ['applied', 'standard-4'])
  await keepRun(client, 'downgrade', downgradeId(user.id))
})

test('an unused code expires, and another downgrade can be requested', async t => {
  const { db, client } = await kit
  const { user, run, downgrades, row, plan } = await started(1)
  await downgrades.wake(user.id)
  await run.result()
  t.deepEqual([(await row()).state, await plan()], ['expired', 'standard-6'])
  await keepRun(client, 'downgrade-expired', downgradeId(user.id))
  await t.notThrowsAsync(beginDowngrade(db, plans, user.id))
})

test('twenty wake-ups of a confirmed downgrade apply it once', async t => {
  const { user, run, downgrades, confirm, plan } = await started()
  await confirm()
  await Promise.all(Array.from({ length: 20 }, () => downgrades.wake(user.id)))
  await run.result()
  t.is(await plan(), 'standard-4')
})

test('the history contains the account, and no code', async t => {
  const { user, run, downgrades, confirm, row } = await started()
  await downgrades.wake(user.id)
  await confirm()
  await downgrades.wake(user.id)
  await run.result()
  const history = JSON.stringify(await run.fetchHistory())
  t.false(history.includes((await row()).id))
})

test('a lost wake-up is repaired from the rows, even when Temporal has lost the run', async t => {
  const { db, client } = await kit
  const lost = await started()
  await lost.downgrades.wake(lost.user.id)
  await lost.run.terminate('as a lost Temporal does')
  const never = await started()
  const over = await started(-10)
  for (const step of [lost, never]) await step.confirm()
  await db('downgrades')
    .where({ state: 'confirmed' })
    .update({ confirmed_at: new Date(Date.now() - 10_000) })
  // The worker's relay does the same.
  await downgradeRelay({ db, client, downgrades: lost.downgrades, log: pino({ level: 'silent' }) }).round()
  for (const step of [lost, never, over])
    await comesTrue(async () => !['pending', 'confirmed'].includes((await step.row()).state))
  t.deepEqual([await lost.plan(), await never.plan(), await over.plan()], ['standard-4', 'standard-4', 'standard-6'])
  t.is((await over.row()).state, 'expired')
})
