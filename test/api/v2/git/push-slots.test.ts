import test from 'ava'
import { acceptance } from '../../../../policy/acceptance.ts'
import { lockedSlots } from '../../../../policy/locked-slots.ts'
import { appCaps } from '../../../../policy/request-caps.ts'
import { databaseTimeouts } from '../../../../policy/timeouts.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { deliver, webhookOf } from '../../../kit/git/deliveries.ts'
import { holdLocks, waitingForLocks } from '../../../kit/rows/held-locks.ts'

const api = testApi()

// How long these pushes are held depends on the machine.
Object.assign(acceptance.push, {
  ...{ answerMs: 60_000, commitMs: 60_000, beginMs: 60_000, confirmMs: 60_000 },
  lockMs: databaseTimeouts.statementMs - 500,
})

async function webhooks(count: number) {
  const user = await api().makeUser({ plan: 'pro-12' })
  return Promise.all(
    Array.from({ length: count }, async () => {
      const { id } = await api().makeApp(user)
      return { id, hook: await webhookOf(api(), user, id) }
    }),
  )
}

const hold = (ids: string[]) =>
  holdLocks(api().db, trx => trx.raw('select 1 from apps where id = any(?) for update', [ids]))

const waiting = () => waitingForLocks(api().db)

test.serial('pushes of one application wait with one connection, and all of them are stored', async t => {
  const [[one], [other]] = await Promise.all([webhooks(1), webhooks(1)])
  const letGo = await hold([one!.id])
  const pushes = Array.from({ length: appCaps.waitingDeploys }, (_, n) =>
    deliver(api(), one!.hook, { branch: `b${n}` }),
  )
  await comesTrue(async () => (await waiting()) > 0)
  t.is((await deliver(api(), other!.hook)).status, 200)
  t.is(await waiting(), 1)
  await letGo()
  t.deepEqual([...new Set((await Promise.all(pushes)).map(({ status }) => status))], [200])
})

test.serial('an account whose applications are all locked leaves connections for others', async t => {
  const [many, [other]] = await Promise.all([webhooks(12), webhooks(1)])
  const letGo = await hold(many.map(({ id }) => id))
  const pushes = many.map(({ hook }) => deliver(api(), hook))
  const { perSubject } = lockedSlots(10)
  await comesTrue(async () => (await waiting()) === perSubject)
  t.is((await deliver(api(), other!.hook)).status, 200)
  t.is(await waiting(), perSubject)
  await letGo()
  t.deepEqual([...new Set((await Promise.all(pushes)).map(({ status }) => status))], [200])
})

test('half of the connections may wait for what is locked, three of ten for one account', t => {
  t.deepEqual(lockedSlots(10), { atOnce: 5, perSubject: 3 })
  t.deepEqual(lockedSlots(20), { atOnce: 10, perSubject: 6 })
  t.deepEqual(lockedSlots(1), { atOnce: 1, perSubject: 1 })
})
