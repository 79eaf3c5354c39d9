import { once } from 'node:events'
import { Readable } from 'node:stream'
import test from 'ava'
import { type AppSnapshotOptions, appSnapshotActivities } from '../../../activities/app-snapshots.ts'
import type { Release } from '../../../activities/releases/release.ts'
import type { SnapshotRequest } from '../../../activities/snapshots/port.ts'
import { snapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import type { Db } from '../../../db/database.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { releaseSnapshotSlot, takeSnapshotSlot } from '../../../db/snapshots/snapshot-slots.ts'
import { queueSnapshot } from '../../../db/snapshots/snapshots.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { placeLost } from '../../../policy/apps/claims.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const never = new AbortController().signal
const lost = { message: /Another operation/ }

/** A database that can be unreachable, and the number of calls meanwhile. */
async function withholding() {
  const { db } = await database
  const line = { away: false, refused: 0 }
  const raw = (...args: unknown[]) => {
    if (!line.away) return (db.raw as (...args: unknown[]) => Promise<unknown>)(...args)
    line.refused++
    return Promise.reject(new Error('away'))
  }
  return { line, db: { raw } as unknown as Db }
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

test('nothing is copied without the slot', async t => {
  const { db } = await database
  const asking = { hostId: 'taken', operationId: 'mine' }
  await takeSnapshotSlot(db, 'taken', 'another')
  const work = endless()
  const error = await t.throwsAsync(snapshotSlots(db).holding(asking, never, work.run), lost)
  t.like(error, { type: placeLost, nonRetryable: true })
  t.false(work.started)
  await releaseSnapshotSlot(db, 'taken', 'another')
  const again = endless()
  const held = snapshotSlots(db).holding(asking, never, again.run)
  await comesTrue(async () => again.started)
  t.false(await takeSnapshotSlot(db, 'taken', 'another'), 'it was taken before the work')
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

test('a snapshot that loses its slot ends its child and its upload immediately, and reports it', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ release: 1 })
  const wish = { appId: app.id, ownerId: user.id, actor: user.id, origin: 'manual', plans: defaultPlans } as const
  await queueSnapshot(db, wish)
  const claim = { run: 'lane', step: 1 }
  const { id } = (await claimNextOperationFor(db, { type: 'app', id: app.id }, claim, []))!
  // It waited for its slot, and a deploy of its application did not wait for it.
  await db('apps').where({ id: app.id }).update({ release: 2 })
  const ended: string[] = []
  const endless = (name: string, signal: AbortSignal) =>
    once(signal, 'abort').then(() => {
      ended.push(name)
      throw new Error(`${name} was cut`)
    })
  const { takeSnapshot } = appSnapshotActivities({
    ...({ db, engine: {}, locks: appLocks(), traits: { id: 'h1' }, sharedUid: 1000 } as never as AppSnapshotOptions),
    volumes: { path: () => '/nowhere', ensure: async () => {} } as never,
    store: {
      put: (_id: string, _body: Readable, { signal }: { signal: AbortSignal }) => endless('upload', signal),
    } as never,
    snapshots: {
      make: ({ signal }: SnapshotRequest) => ({ body: new Readable(), totals: endless('child', signal) }),
    } as never,
  })
  const release = { appId: app.id, hostId: 'h1', number: 1, diskMb: 1 } as Release
  const taken = asActivity({ run: 'lane', step: 2 }, () => takeSnapshot(release, id))
  const place = { subject: 'snapshot/h1', holder: id }
  await comesTrue(async () => Boolean(await db('operations').where({ id, step: 'copying files' }).first()))
  t.is(await db('blob_leases').where(place).update({ holder: 'another' }), 1)
  t.like(await t.throwsAsync(taken, lost), { type: placeLost })
  t.deepEqual(ended.sort(), ['child', 'upload'])
})

test('the next snapshot waits for copies in this process, even after their lease is lost', async t => {
  const { db } = await database
  const places = snapshotSlots(db, { holdEveryMs: 60_000, lookEveryMs: 5 })
  const work = endless()
  const held = places.holding({ hostId: 'shared', operationId: 'first' }, never, work.run)
  await comesTrue(async () => work.started)
  await releaseSnapshotSlot(db, 'shared', 'first')
  let next = false
  const waits = places.wait({ hostId: 'shared', operationId: 'second' }, never).then(() => {
    next = true
  })
  await places.wait({ hostId: 'another', operationId: 'third' }, never)
  t.false(next)
  t.true(await takeSnapshotSlot(db, 'shared', 'first'), 'nobody has taken it')
  await releaseSnapshotSlot(db, 'shared', 'first')
  work.end()
  await held
  await waits
  t.true(next)
})
