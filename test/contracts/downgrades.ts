import type { SerialFn } from 'ava'
import { beginDowngrade, confirmDowngrade } from '../../db/accounts/downgrades.ts'
import { transaction } from '../../db/database.ts'
import { mailedCode } from '../../policy/accounts/mailed-codes.ts'
import { defaultPlans as plans } from '../../policy/accounts/plans.ts'
import type { Downgrades } from '../../workflows/client.ts'
import { masterKey, type TestApi } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'

export interface DowngradesUnderTest {
  api: TestApi
  /** The downgrades that the API wakes. */
  downgrades: Downgrades
  /** True = no wake-up arrives from now on. */
  lose(wakeUps: boolean): void
  /** Acts as the relay of a worker where there is none. */
  relay(): Promise<unknown>
}

/** An account, and its step to a lower plan. */
async function account({ db, makeUser, as }: TestApi, plan = 'standard-6') {
  const ana = await makeUser({ plan })
  const mine = () => db('downgrades').where({ user_id: ana.id })
  const post = (body?: object) => as(ana.session).post('/v2/account/downgrade', body && JSON.stringify(body))
  return {
    ana,
    mine,
    row: () => mine().first(),
    begin: () => beginDowngrade(db, plans, ana.id),
    confirm: () => confirmDowngrade(db, plans, ana.id, () => true),
    ask: () => post(),
    answer: async () => post({ confirmCode: mailedCode(masterKey, 'downgrade', (await mine().first()).id) }),
    plan: async (): Promise<string> => (await db('users').where({ id: ana.id }).first()).plan,
  }
}

/** The outcome of a woken downgrade, in the rows and for its caller. */
export function downgradesContract(test: SerialFn, name: string, subject: () => DowngradesUnderTest): void {
  test(`${name}: a confirmed downgrade is applied, and its caller is answered`, async t => {
    const { ask, answer, row, plan } = await account(subject().api)
    t.is((await ask()).body.code, 'CONFIRM_CODE_SENT')
    t.like(await row(), { state: 'pending', ended_at: null })
    t.is(await plan(), 'standard-6', 'not before it is confirmed')
    const done = await answer()
    t.deepEqual([done.status, done.body.code], [200, 'CONFIRM_CODE_VALIDATED'])
    t.like(await row(), { state: 'applied', plan_from: 'standard-6', plan_to: 'standard-4' })
    t.truthy((await row()).ended_at)
    t.is(await plan(), 'standard-4')
  })

  test(`${name}: a downgrade waits for its confirmation, and twenty wake-ups apply it once`, async t => {
    const { downgrades } = subject()
    const { ana, begin, confirm, mine, plan } = await account(subject().api)
    await begin()
    await downgrades.wake(ana.id)
    t.is((await mine().first()).state, 'pending')
    await confirm()
    await Promise.all(Array.from({ length: 20 }, () => downgrades.wake(ana.id)))
    await comesTrue(async () => (await mine().first()).state === 'applied')
    await Promise.all(Array.from({ length: 20 }, () => downgrades.wake(ana.id)))
    t.is(await plan(), 'standard-4')
    t.is((await mine()).length, 1)
  })

  test(`${name}: a confirmed downgrade that no longer fits is refused, with a mail`, async t => {
    const { api, downgrades } = subject()
    const { ana, begin, mine, plan } = await account(api, 'standard-4')
    const app = await api.makeApp(ana, { memoryMb: 2048 })
    await begin()
    // In one transaction: a later reader finds both.
    await transaction(api.db, async trx => {
      await trx('apps').where({ id: app.id }).update({ ram_mb: 2304 })
      await trx('downgrades').where({ user_id: ana.id }).update({ state: 'confirmed', confirmed_at: trx.fn.now() })
    })
    await downgrades.wake(ana.id)
    await comesTrue(async () => (await mine().first()).state === 'refused')
    t.is(await plan(), 'standard-4')
    const mails = await api.db('mails').where({ user_id: ana.id, template: 'downgrade-refused' })
    t.deepEqual(
      mails.map(({ fields }) => fields),
      [{ from: 'standard-4', to: 'hobby-2' }],
    )
  })

  test(`${name}: an unused code expires`, async t => {
    const { downgrades } = subject()
    const { ana, begin, mine, plan } = await account(subject().api)
    await begin()
    await mine().update({ expires_at: new Date(Date.now() + 1000) })
    await downgrades.wake(ana.id)
    await comesTrue(async () => (await mine().first()).state === 'expired')
    t.is(await plan(), 'standard-6')
    await t.notThrowsAsync(begin(), 'and another step can be begun')
  })

  test(`${name}: a wake-up of an account without a downgrade changes nothing`, async t => {
    const { downgrades } = subject()
    const { ana, plan, mine, ask, answer } = await account(subject().api)
    await downgrades.wake(ana.id)
    await ask()
    t.is((await answer()).status, 200)
    t.is(await plan(), 'standard-4')
    t.is((await mine()).length, 1)
  })
}

/** A lost wake-up, separate from the others: no wake-up arrives meanwhile. */
export function lostDowngradesContract(test: SerialFn, name: string, subject: () => DowngradesUnderTest): void {
  test(`${name}: a lost wake-up is an error for its sender, and the downgrade is still applied`, async t => {
    const { downgrades, lose, relay, api } = subject()
    const { ana, ask, answer, mine, plan } = await account(api)
    lose(true)
    t.teardown(() => lose(false))
    await t.throwsAsync(downgrades.wake(ana.id))
    t.is((await ask()).body.code, 'CONFIRM_CODE_SENT')
    const reported = answer()
    await comesTrue(async () => (await mine().first()).state !== 'pending')
    // As if it had waited that long.
    await mine().update({ confirmed_at: new Date(Date.now() - 10_000) })
    await relay()
    t.is((await reported).body.code, 'CONFIRM_CODE_VALIDATED')
    t.is((await mine().first()).state, 'applied')
    t.is(await plan(), 'standard-4')
  })
}
