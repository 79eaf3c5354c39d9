import { getEventListeners, once } from 'node:events'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApplicationFailure } from '@temporalio/common'
import test, { type ExecutionContext } from 'ava'
import { type AppSnapshotOptions, appSnapshotActivities } from '../../../activities/app-snapshots.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { FreezeTooLong, type SnapshotRequest } from '../../../activities/snapshots/port.ts'
import { SlotLine, type Waiter } from '../../../activities/snapshots/slot-line.ts'
import { snapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import type { Db } from '../../../db/database.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { enqueueOperation } from '../../../db/operations/operations.ts'
import { holdSnapshotSlot, releaseSnapshotSlot } from '../../../db/snapshots/snapshot-slots.ts'
import { queueSnapshot } from '../../../db/snapshots/snapshots.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { placeLost } from '../../../policy/apps/claims.ts'
import { newId } from '../../../policy/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const never = new AbortController().signal
const lost = { message: /Other operations hold/ }

/** A database that can be unreachable, and the number of calls meanwhile. */
async function withholding() {
  const { db } = await database
  const line = { away: false, refused: 0 }
  const withheld = new Proxy(db, {
    apply(target, _, args: [string]) {
      if (!line.away) return target(...args)
      line.refused++
      throw new Error('away')
    },
  })
  return { line, db: withheld as Db }
}

/** Work that ends on demand, or by its signal. */
function endless() {
  const work = { end: () => {}, signal: never, started: false }
  const run = (signal: AbortSignal) => {
    Object.assign(work, { signal, started: true })
    return Promise.race([
      new Promise<string>(resolve => Object.assign(work, { end: () => resolve('done') })),
      once(signal, 'abort').then(() => Promise.reject(new Error('cut'))),
    ])
  }
  return Object.assign(work, { run })
}

test('a slot that is free is taken immediately, but not before one that waits for room', async t => {
  const { db } = await database
  const slots = snapshotSlots(db, { lookEveryMs: 1 })
  const one = (operationId: string) => ({ hostId: 'free slots', operationId, ownerId: operationId })
  const cancelling = new AbortController()
  let looks = 0
  const reserve = async () => {
    looks++
    return null
  }
  const waiting = slots.wait({ ...one('large'), reserve }, cancelling.signal)
  await comesTrue(async () => looks > 0)
  const before = looks
  // Each of these looks by itself, or comes within a look that has seen the large one.
  while (looks < before + 3) t.like(await t.throwsAsync(slots.takeFree(one('small')), lost), { type: placeLost })
  cancelling.abort()
  await t.throwsAsync(waiting)
  const isTaken = (operationId: string) =>
    slots.takeFree(one(operationId)).then(
      () => true,
      () => false,
    )
  for (const operationId of ['first', 'second']) {
    await sleep(5) // a look just before would count
    t.true(await isTaken(operationId), operationId)
  }
  const holders = await db('blob_leases').where({ subject: 'snapshot/free slots' }).orderBy('place').pluck('holder')
  t.deepEqual(holders, ['first', 'second'])
  await sleep(5)
  await t.throwsAsync(slots.takeFree(one('third')), lost, 'both are taken')
})

test('nothing is copied without a slot', async t => {
  const { db } = await database
  const asking = { hostId: 'taken', operationId: 'mine' }
  for (const another of ['another', 'third']) t.true(await holdSnapshotSlot(db, 'taken', another))
  const work = endless()
  const error = await t.throwsAsync(snapshotSlots(db).holding(asking, never, work.run), lost)
  t.like(error, { type: placeLost, nonRetryable: true })
  t.false(work.started)
  await releaseSnapshotSlot(db, 'taken', 'another')
  const again = endless()
  const held = snapshotSlots(db).holding(asking, never, again.run)
  await comesTrue(async () => again.started)
  t.false(await holdSnapshotSlot(db, 'taken', 'another'), 'it was taken before the work')
  again.end()
  t.is(await held, 'done')
})

test('an unreachable database loses no slot before the lease expires', async t => {
  const { db, line } = await withholding()
  const work = endless()
  const places = snapshotSlots(db, { holdEveryMs: 5 })
  const held = places.holding({ hostId: 'away', operationId: 'mine' }, never, work.run)
  await comesTrue(async () => work.started)
  line.away = true
  await comesTrue(async () => line.refused >= 5)
  t.false(work.signal.aborted)
  line.away = false
  work.end()
  t.is(await held, 'done')

  const short = endless()
  const cut = snapshotSlots(db, { holdEveryMs: 5, heldMs: 20 }).holding(
    { hostId: 'away', operationId: 'mine' },
    never,
    short.run,
  )
  await comesTrue(async () => short.started)
  line.away = true
  t.like(await t.throwsAsync(cut, lost), { type: placeLost })
  t.true(short.signal.aborted)
})

/** A snapshot that was claimed by the run `lane`, and the host's step for it with these parts. */
async function claimedSnapshot(hostId: string, parts: Pick<AppSnapshotOptions, 'store' | 'snapshots'>) {
  const { db } = await database
  const make = rows(db)
  await make.host(hostId)
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ release: 1, host_id: hostId })
  const request = { appId: app.id, ownerId: user.id, actor: user.id, origin: 'manual', plans: defaultPlans } as const
  await queueSnapshot(db, request)
  const { id } = (await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step: 1 }, []))!
  const { takeSnapshot } = appSnapshotActivities({
    ...({
      db,
      slots: snapshotSlots(db),
      engine: {},
      locks: appLocks(),
      traits: { id: hostId },
      sharedUid: 1000,
    } as never as AppSnapshotOptions),
    volumes: { path: () => '/nowhere', ensure: async () => {} } as never,
    ...parts,
  })
  const release = { appId: app.id, hostId, number: 1, diskMb: 1 } as Release
  return { db, app, id, take: () => takeSnapshot(release, id) }
}

test('a program that changes too much is copied once more, and then refused for this time', async t => {
  const error = new FreezeTooLong('it changes too much')
  const { db, id, take } = await claimedSnapshot('changes', {
    store: { put: async (_id: string, body: Readable) => void body.destroy() } as never,
    snapshots: { make: () => ({ body: new Readable(), totals: Promise.reject(error) }) } as never,
  })
  const attempt = (n: number) => {
    const signal = new AbortController().signal
    return t.throwsAsync(asActivity({ run: 'lane', step: 2 }, take, signal, n)) as Promise<ApplicationFailure>
  }
  t.like(await attempt(1), { type: 'FreezeTooLong', nonRetryable: false })
  t.like(await attempt(2), { type: 'ACTION_FAILED', nonRetryable: true, message: error.message })
  await releaseSnapshotSlot(db, 'changes', id)
})

test('a snapshot that loses its slot ends its child and its upload immediately, and reports it', async t => {
  const ended: string[] = []
  const endless = (name: string, signal: AbortSignal) =>
    once(signal, 'abort').then(() => {
      ended.push(name)
      throw new Error(`${name} was cut`)
    })
  const { db, app, id, take } = await claimedSnapshot('loses', {
    store: {
      put: (_id: string, _body: Readable, { signal }: { signal: AbortSignal }) => endless('upload', signal),
    } as never,
    snapshots: {
      make: ({ signal }: SnapshotRequest) => ({ body: new Readable(), totals: endless('child', signal) }),
    } as never,
  })
  // It waited for its slot, and a deploy of its application did not wait for it.
  await db('apps').where({ id: app.id }).update({ release: 2 })
  const taken = asActivity({ run: 'lane', step: 2 }, take)
  const place = { subject: 'snapshot/loses', holder: id }
  await comesTrue(async () => Boolean(await db('operations').where({ id, step: 'copying files' }).first()))
  t.true(await holdSnapshotSlot(db, 'loses', 'third'))
  t.is(await db('blob_leases').where(place).update({ holder: 'another' }), 1)
  t.like(await t.throwsAsync(taken, lost), { type: placeLost })
  t.deepEqual(ended.sort(), ['child', 'upload'])
})

test('the next snapshot waits for copies in this process, even after their lease is lost', async t => {
  const { db } = await database
  const places = snapshotSlots(db, { holdEveryMs: 60_000, lookEveryMs: 5 })
  const copies = [endless(), endless()] as const
  const held = copies.map(({ run }, n) => places.holding({ hostId: 'shared', operationId: `copy-${n}` }, never, run))
  await comesTrue(async () => copies.every(({ started }) => started))
  await db('blob_leases').delete().where({ subject: 'snapshot/shared' })
  let next = false
  const waits = places.wait({ hostId: 'shared', operationId: 'next', ownerId: 'next' }, never).then(() => {
    next = true
  })
  await places.wait({ hostId: 'another', operationId: 'third', ownerId: 'third' }, never)
  t.false(next)
  t.deepEqual(await db('blob_leases').where({ subject: 'snapshot/shared' }), [], 'nobody has taken one')
  copies[0].end()
  await held[0]
  await waits
  t.true(next)
  copies[1].end()
  await held[1]
})

/** Snapshots of accounts that wait, in the order in which they got their slots, on a host of their own. */
async function queueing(t: ExecutionContext, hostId: string) {
  const { db } = await database
  const make = rows(db)
  let looks = 0
  const counted = new Proxy(db, {
    get(target, key) {
      if (key === 'transaction') looks++
      return Reflect.get(target, key)
    },
  })
  const places = snapshotSlots(counted, { lookEveryMs: 5 })
  /** Everyone who waits now has been considered. */
  const looked = async () => {
    const since = looks
    // A look that gives slots takes two.
    await comesTrue(() => served.length === named.size || looks >= since + 4)
  }
  const served: string[] = []
  const named = new Map<string, string>()
  const holders = async () =>
    db('blob_leases')
      .where({ subject: `snapshot/${hostId}` })
      .orderBy('place')
      .pluck('holder')
  /** Operations of one account, which wait from here on. */
  async function waitsOf(ownerId: string, name: string, count: number, waiter: Pick<Waiter, 'reserve'> = {}) {
    for (let n = 1; n <= count; n++) {
      const target = { targetType: 'database', targetId: newId(), kind: 'snapshot', ownerId, actor: ownerId } as const
      const { id: operationId } = await enqueueOperation(db, target)
      named.set(operationId, `${name}${n}`)
      const given = new AbortController()
      t.teardown(() => given.abort())
      places.wait({ hostId, operationId, ownerId, ...waiter }, given.signal).then(
        () => served.push(`${name}${n}`),
        () => {},
      )
    }
    await looked()
  }
  return {
    db,
    served,
    looked,
    waitsOf,
    waits: async (name: string, count: number, waiter?: Pick<Waiter, 'reserve'>) =>
      waitsOf((await make.user()).id, name, count, waiter),
    /** One that has a slot copies in it until it is ended. */
    async copies(name: string) {
      const [operationId = ''] = [...named].find(([, its]) => its === name) ?? []
      const work = endless()
      const held = places.holding({ hostId, operationId }, never, work.run)
      t.teardown(() => work.end())
      await comesTrue(() => work.started)
      return async () => {
        work.end()
        await held
      }
    },
    /** The names of those that have a slot. */
    holders: async () => (await holders()).map(id => named.get(id)!).sort(),
    async ends(name: string) {
      const [id] = [...named].find(([, its]) => its === name)!
      await releaseSnapshotSlot(db, hostId, id)
      await looked()
    },
  }
}

test('an account at its worst has one slot: another one waits for nobody, a third for one turn of one of them', async t => {
  const { served, waits, holders, ends } = await queueing(t, 'neighbours')
  await waits('a', 50)
  t.deepEqual(await holders(), ['a1'], 'one of fifty, although another slot is free')
  await waits('b', 2)
  t.deepEqual(await holders(), ['a1', 'b1'])
  await waits('c', 1)
  await ends('a1')
  t.deepEqual(await holders(), ['b1', 'c1'], 'before the 49 others of the first account')
  await ends('b1')
  t.deepEqual(await holders(), ['a2', 'c1'])
  await ends('c1')
  t.deepEqual(await holders(), ['a2', 'b2'])
  await waits('d', 1)
  await ends('a2')
  t.deepEqual(await holders(), ['b2', 'd1'])
  await ends('b2')
  t.deepEqual(await holders(), ['a3', 'd1'])
  t.deepEqual(served, ['a1', 'b1', 'c1', 'a2', 'b2', 'd1', 'a3'])
})

test('accounts that copy come last also after a crash of Postgres, which clears the slots', async t => {
  const { db, served, looked, waits, copies } = await queueing(t, 'crashed')
  await waits('a', 50)
  await waits('b', 2)
  const [ended] = [await copies('a1'), await copies('b1')]
  await waits('c', 1)
  await db('blob_leases').where({ subject: 'snapshot/crashed' }).delete()
  await looked()
  t.deepEqual(served, ['a1', 'b1'], 'two copies run, and count')
  await ended()
  await comesTrue(() => served.length > 2)
  await looked()
  t.deepEqual(served, ['a1', 'b1', 'c1'])
})

test('accounts that have slots come last also after the process of their host began anew', async t => {
  const { db, waits, holders, ends } = await queueing(t, 'anew')
  await waits('a', 1)
  await waits('b', 1)
  t.deepEqual(await holders(), ['a1', 'b1'])
  const owners: string[] = await db('operations')
    .join('blob_leases', 'holder', 'operations.id')
    .where({ subject: 'snapshot/anew' })
    .orderBy('place')
    .pluck('owner_id')
  const again = await queueing(t, 'anew')
  for (const [n, owner] of owners.entries()) await again.waitsOf(owner, `${n}`, 2)
  await again.waits('c', 1)
  await ends('a1')
  await comesTrue(() => again.served.length === 1)
  t.deepEqual(again.served, ['c1'])
})

test('a copy that does not fit alongside others waits at the head of the line, and none passes it', async t => {
  const { served, waits, holders, ends } = await queueing(t, 'room')
  const room = { isThere: false, givenBack: 0 }
  const reserve = async () => (room.isThere ? () => void room.givenBack++ : null)
  await waits('a', 1)
  await waits('large', 1, { reserve })
  await waits('b', 1)
  t.deepEqual(served, ['a1'])
  await ends('a1')
  t.deepEqual(served, ['a1'])
  room.isThere = true
  await comesTrue(() => served.length === 3)
  t.deepEqual(await holders(), ['b1', 'large1'])
  t.is(room.givenBack, 0, 'what it has reserved stays its own')
})

test('an operation that has reserved room and gets no slot gives the room back', async t => {
  for (const assign of [
    async () => new Map(),
    async (waiting: readonly string[]) => (waiting.length ? Promise.reject(new Error('away')) : new Map()),
  ]) {
    const line = new SlotLine(0)
    let givenBack = 0
    const waiter = { operationId: 'it', ownerId: 'it', reserve: async () => () => void givenBack++ }
    line.join(waiter)
    await line.look(assign).catch(() => {})
    t.is(givenBack, 1)
    t.false(line.isServed(waiter))
  }
})

test('a copy that cannot be measured holds up no other', async t => {
  const { waits, holders } = await queueing(t, 'unmeasured')
  await waits('a', 1, { reserve: () => Promise.reject(new Error('du failed')) })
  t.deepEqual(await holders(), ['a1'])
})

test('an operation that cannot get a slot is not measured', async t => {
  const { waits, waitsOf, holders, db } = await queueing(t, 'taken-by-two')
  let measured = 0
  const reserve = async () => {
    measured++
    return () => {}
  }
  await waits('a', 1)
  const { owner_id: ownerId } = await db('operations')
    .join('blob_leases', 'holder', 'operations.id')
    .where({ subject: 'snapshot/taken-by-two' })
    .first('owner_id')
  await waitsOf(ownerId, 'again', 1, { reserve })
  t.is(measured, 0, 'its account has one')
  await waits('b', 1)
  await waits('c', 1, { reserve })
  t.deepEqual(await holders(), ['a1', 'b1'])
  t.is(measured, 0, 'both are taken')
})

test('an operation that waits again for the slot that it has gets it immediately', async t => {
  const { db } = await database
  const places = snapshotSlots(db, { lookEveryMs: 5 })
  for (const operationId of ['first', 'second'])
    await places.wait({ hostId: 'again', operationId, ownerId: operationId }, never)
  await places.wait({ hostId: 'again', operationId: 'first', ownerId: 'first' }, never)
  t.deepEqual((await db('blob_leases').where({ subject: 'snapshot/again' }).pluck('holder')).sort(), [
    'first',
    'second',
  ])
})

test('room is reserved alongside the copies of databases that have slots, or get them in the same look', async t => {
  const { db, waits, ends } = await queueing(t, 'alongside')
  const seen: Record<string, number> = {}
  const reserve = (name: string) => async (alongside: readonly string[]) => {
    seen[name] = alongside.length
    return () => {}
  }
  await waits('a', 1, { reserve: reserve('a') })
  await waits('b', 1, { reserve: reserve('b') })
  t.deepEqual(seen, { a: 0, b: 1 })
  await ends('a1')
  await db('operations')
    .whereIn('id', db('blob_leases').where({ subject: 'snapshot/alongside' }).select('holder'))
    .update({
      target_type: 'app',
    })
  await waits('c', 1, { reserve: reserve('c') })
  t.is(seen.c, 0, 'an application needs none of it')
})

test('an operation that is given up while it gets a slot is reported only afterwards', async t => {
  const { db } = await database
  /** Looks stop here until they may go on. */
  let gate = { isReached: false, open: () => {}, opened: Promise.resolve() }
  const close = () => {
    gate = { isReached: false, open: () => {}, opened: Promise.resolve() }
    gate.opened = new Promise(resolve => Object.assign(gate, { open: resolve }))
  }
  const gated = new Proxy(db, {
    get(target, key) {
      if (key !== 'transaction') return Reflect.get(target, key)
      gate.isReached = true
      return (...args: Parameters<Db['transaction']>) => gate.opened.then(() => target.transaction(...args))
    },
  })
  const lookEveryMs = 300
  const places = snapshotSlots(gated, { lookEveryMs })
  const lane = new AbortController()
  let looks = 0
  const reserve = async () => {
    if (++looks === 1) return null
    close()
    lane.abort()
    return () => {}
  }
  let isReported = false
  // Its first look takes so long that another one may look at once, while it sleeps.
  close()
  const waits = places
    .wait({ hostId: 'given-up', operationId: 'it', ownerId: 'it', reserve }, lane.signal)
    .catch(() => {})
    .then(() => {
      isReported = true
    })
  await sleep(lookEveryMs)
  gate.open()
  await comesTrue(async () => getEventListeners(lane.signal, 'abort').length > 0)
  const next = places.wait({ hostId: 'given-up', operationId: 'next', ownerId: 'next' }, never)
  await comesTrue(async () => lane.signal.aborted && gate.isReached)
  await sleep(0)
  t.false(isReported)
  gate.open()
  await Promise.all([waits, next])
  t.deepEqual((await db('blob_leases').where({ subject: 'snapshot/given-up' }).pluck('holder')).sort(), ['it', 'next'])
})
