import test from 'ava'
import { enqueueOperation } from '../../../db/operations/operations.ts'
import {
  assignSnapshotSlots,
  holdSnapshotSlot,
  listSnapshotSlotHolders,
  releaseSnapshotSlot,
  renewSnapshotSlot,
} from '../../../db/snapshots/snapshot-slots.ts'
import { snapshotsAtOnce } from '../../../policy/hosts/host-slots.ts'
import { newId } from '../../../policy/ids.ts'
import { draws } from '../../kit/analytics/log-lines.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** Operations of accounts, and what is stored of the slots of a host of their own. */
async function scene(hostId: string) {
  const { db } = await database
  const make = rows(db)
  const subject = `snapshot/${hostId}`
  const owners = new Map<string, string>()
  const live = () => db('blob_leases').where({ subject }).where('expires_at', '>', db.fn.now())
  return {
    db,
    live,
    owners,
    account: async (count: number) => {
      const { id: ownerId } = await make.user()
      const ids: string[] = []
      for (let n = 0; n < count; n++) {
        const target = { targetType: 'database', targetId: newId(), kind: 'snapshot', ownerId, actor: ownerId } as const
        const { id } = await enqueueOperation(db, target)
        owners.set(id, ownerId)
        ids.push(id)
      }
      return ids
    },
    assign: (waiting: string[], copying: string[] = []) => assignSnapshotSlots(db, { hostId, waiting, copying }),
    hold: (id: string) => holdSnapshotSlot(db, hostId, id),
    renew: (id: string) => renewSnapshotSlot(db, hostId, id),
    release: (id: string) => releaseSnapshotSlot(db, hostId, id),
    expire: (id: string) =>
      db('blob_leases')
        .where({ subject, holder: id })
        .update({ expires_at: new Date(Date.now() - 1000) }),
  }
}

test('a host always has at most two holders, of two accounts, and free slots go to those that wait, in their order', async t => {
  const { db, live, owners, account, assign, hold, renew, release, expire } = await scene('model')
  const all = (await Promise.all([4, 2, 1, 1].map(account))).flat()
  /** As they should be. */
  let held: string[] = []
  const ownersOf = (ids: readonly string[]) => ids.map(id => owners.get(id)!)
  const given = (waiting: readonly string[], copying: readonly string[]): string[] => {
    const busy = new Set([...held, ...copying])
    const next: string[] = []
    for (const id of waiting) {
      if (busy.size >= snapshotsAtOnce || ownersOf([...busy]).includes(owners.get(id)!)) continue
      busy.add(id)
      next.push(id)
    }
    return next
  }
  const draw = draws(16)
  const below = (bound: number) => Math.floor(draw() * bound)
  const pick = (ids: readonly string[]) => ids[below(ids.length)]!
  const shuffled = (ids: readonly string[]) =>
    ids
      .map(id => ({ id, at: draw() }))
      .sort((a, b) => a.at - b.at)
      .map(({ id }) => id)
  for (let n = 0; n < 400; n++) {
    const id = pick(all)
    const act = below(7)
    if (act < 2) {
      const waiting = shuffled(all).slice(0, below(all.length + 1))
      const copying = shuffled(all)
        .slice(0, below(3))
        .filter(one => !waiting.includes(one))
      const next = given(waiting, copying)
      held.push(...next)
      const holders = await assign(waiting, copying)
      t.deepEqual([...holders.keys()].sort(), [...new Set([...held, ...copying])].sort(), `round ${n}`)
      t.true([...holders].every(([holder, { ownerId }]) => ownerId === owners.get(holder)))
    } else if (act === 2) {
      const isHolder = held.includes(id)
      const next = isHolder ? [] : given([id], [])
      held.push(...next)
      t.is(await hold(id), isHolder || next.length === 1, `round ${n}`)
    } else if (act === 3) {
      t.is(await renew(id), held.includes(id), `round ${n}`)
    } else if (act === 4) {
      await release(id)
      held = held.filter(one => one !== id)
    } else if (act === 5) {
      await expire(id)
      held = held.filter(one => one !== id)
    } else if (below(10) === 0) {
      await db('blob_leases').where({ subject: 'snapshot/model' }).delete() // as a crash of Postgres
      held = []
    }
    t.deepEqual((await live().pluck('holder')).sort(), [...held].sort(), `round ${n}`)
    t.true(held.length <= snapshotsAtOnce && new Set(ownersOf(held)).size === held.length)
  }
})

test('of many concurrent requests, of one account or of several, as many succeed as there are slots', async t => {
  const { live, account, hold, release, owners } = await scene('concurrent')
  const one = await account(20)
  for (let n = 0; n < 10; n++) {
    const outcomes = await Promise.all(one.map(hold))
    t.is(outcomes.filter(Boolean).length, 1, 'of one account')
    for (const holder of await live().pluck('holder')) await release(holder)
  }
  const several = (await Promise.all(Array.from({ length: 6 }, () => account(3)))).flat()
  t.is((await Promise.all(several.map(hold))).filter(Boolean).length, snapshotsAtOnce)
  const holders: string[] = await live().pluck('holder')
  t.is(new Set(holders.map(id => owners.get(id))).size, snapshotsAtOnce)
})

test('a slot that a host process of an earlier version has counts for its account, and a late renewal takes no second one', async t => {
  const { db, live, account, assign, renew, expire, hold } = await scene('earlier')
  const [first, second] = (await account(2)) as [string, string]
  await db('blob_leases').insert({ subject: 'snapshot/earlier', place: 1, holder: first, expires_at: '2100-01-01' })
  t.deepEqual([...(await assign([second])).keys()], [first])
  t.true(await renew(first))
  await expire(first)
  t.true(await hold(second))
  t.false(await renew(first), 'its account has another one now')
  t.false(await hold(first))
  t.deepEqual(await live().pluck('holder'), [second])
})

test('operators see what has the slots of a host, and since when', async t => {
  const { db, account, hold, renew, owners } = await scene('shown')
  const [id] = (await account(1)) as [string]
  await hold(id)
  await hold('deleted')
  const before = new Date(Date.now() - 3_600_000)
  await db('blob_leases').where({ holder: id }).update({ since: before })
  await renew(id)
  const [first, second] = await listSnapshotSlotHolders(db, 'shown')
  const { email } = await db('users')
    .where({ id: owners.get(id)! })
    .first('email')
  t.like(first, { place: 1, host_id: 'shown', since: before, operation_id: id, kind: 'snapshot', owner_email: email })
  t.like(second, { place: 2, operation_id: 'deleted', kind: null, owner_id: null, owner_email: null })
})
