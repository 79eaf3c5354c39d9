import test from 'ava'
import { pino } from 'pino'
import { transaction } from '../../../db/database.ts'
import { queueDatabaseRestore, queueDatabaseSnapshot } from '../../../db/databases/database-snapshots.ts'
import * as segments from '../../../db/objects/segments.ts'
import { listDueForSnapshot } from '../../../db/snapshots/automatic-snapshots.ts'
import { sweepSnapshots } from '../../../db/snapshots/snapshot-retention.ts'
import { postponeSnapshotWarning } from '../../../db/snapshots/snapshot-warnings.ts'
import { markSnapshotFailed, markSnapshotGood, type SnapshotRow } from '../../../db/snapshots/snapshots.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { newId } from '../../../policy/ids.ts'
import { automaticSnapshotRules, snapshotLooks } from '../../../policy/rounds.ts'
import { type AutomaticOptions, queueDue, warnOfMissingSnapshots } from '../../../workers/loops/automatic-snapshots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })
const hourSeconds = 3600
const daySeconds = 86_400
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000)

test.beforeEach(async () => {
  const { db } = await database
  await db.raw('truncate users, hosts, databases, operations, snapshots, segments, mails cascade')
  await rows(db).host('h1')
  await rows(db).host('h2')
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

let port = 20_000

/** A database that was provisioned two days ago, of a new account or this one. */
async function store({ plan = 'standard-4', hostId = 'h1', ownerId = '', ...changes }: Record<string, unknown> = {}) {
  const { db } = await database
  const owner = ownerId || (await rows(db).user(plan as string)).id
  const [row] = await db('databases')
    .insert({
      ...{ id: newId(), owner_id: owner, name: 'orders', engine: 'redis', version: '8', image: 'berth/redis:8' },
      ...{ ram_mb: 512, reserved_mb: 512, cpu: 1, host_id: hostId, port: port++, provisioned_at: ago(2 * daySeconds) },
      ...changes,
    })
    .returning('*')
  return row as { id: string; owner_id: string }
}

const woken: string[] = []

function optionsWith(db: AutomaticOptions['db'], more: Partial<AutomaticOptions> = {}): AutomaticOptions {
  const never = { wake: async () => Promise.reject(new Error('The lanes of applications are not woken.')) }
  return { db, plans, log, lanes: never, databaseLanes: { wake: async id => void woken.push(id) }, ...more }
}

const round = async (more: Partial<AutomaticOptions> = {}) =>
  queueDue(optionsWith((await database).db, more), 'database')

const warnings = async () => warnOfMissingSnapshots(optionsWith((await database).db), 'database')

/** Time passes: what was is so many seconds longer ago. */
async function pass(seconds: number): Promise<void> {
  const { db } = await database
  await db.raw('update snapshots set created_at = created_at - make_interval(secs => ?)', [seconds])
  await db.raw('update mails set created_at = created_at - make_interval(secs => ?)', [seconds])
  await db.raw(
    `update databases set snapshot_due_at = snapshot_due_at - make_interval(secs => :seconds),
       snapshot_tried_at = snapshot_tried_at - make_interval(secs => :seconds),
       snapshot_warn_at = snapshot_warn_at - make_interval(secs => :seconds)`,
    { seconds },
  )
}

/** Ends the snapshot in progress. */
async function ended(id: string, state: 'good' | 'failed' = 'good', digest = id): Promise<SnapshotRow> {
  const { db } = await database
  const row: SnapshotRow = await db('snapshots').where({ target_id: id, state: 'making' }).first()
  if (state === 'good') {
    const stored = { segmentId: await segments.allocateSegment(db), size: 10, sha256: 'a'.repeat(64), digest }
    await transaction(db, async trx => {
      await postponeSnapshotWarning(trx, 'database', id)
      await markSnapshotGood(trx, row.operation_id, stored)
    })
  } else await markSnapshotFailed(db, row.operation_id)
  const state_ = state === 'good' ? 'success' : 'error'
  await db('operations').where({ id: row.operation_id }).update({ state: state_, finished_at: new Date() })
  return db('snapshots').where({ id: row.id }).first()
}

test.serial('a database has one snapshot a day, which its lane is woken for and which counts for no plan', async t => {
  const { db } = await database
  const { id, owner_id: ownerId } = await store({ plan: 'hobby-1' })
  woken.length = 0
  t.deepEqual(await round(), [id])
  t.deepEqual(woken, [id])
  const { operation_id: operationId, ...snapshot } = await db('snapshots').first()
  t.like(snapshot, { target_type: 'database', origin: 'automatic', name: `${id}_redis_automatic`, runtime: 'redis' })
  t.like(await db('operations').where({ id: operationId }).first(), {
    ...{ target_type: 'database', target_id: id, kind: 'snapshot', actor: 'platform', owner_id: ownerId },
  })
  t.deepEqual(await round(), [], 'while it is made')
  await ended(id)
  await pass(daySeconds - 60)
  t.deepEqual(await round(), [])
  await pass(61)
  t.deepEqual(await round(), [id])
  await ended(id)
  const byHand = () => queueDatabaseSnapshot(db, { databaseId: id, ownerId, actor: ownerId, origin: 'manual', plans })
  for (let n = 0; n < plans.get('hobby-1')!.snapshotsPerDay; n++) {
    await byHand()
    await ended(id)
  }
  await t.throwsAsync(byHand, { message: /no more snapshots/ })
})

test.serial(
  'without a plan, for a blocked account, a silent host, one that is lost or unprovisioned there is none',
  async t => {
    const { db } = await database
    await store({ plan: 'free' })
    const blocked = await store()
    await db('users').where({ id: blocked.owner_id }).update({ blocked_at: new Date() })
    await store({ hostId: 'h2' })
    await db('hosts')
      .where({ id: 'h2' })
      .update({ last_seen_at: ago(60) })
    await store({ provisioned_at: null })
    await store({ lost_with: 'h1' })
    t.deepEqual(await round(), [])
  },
)

test.serial('snapshots go on for 30 days after the end of a plan, also of a database that is stopped', async t => {
  const { db } = await database
  const one = await store({ status: 'exited', desired_state: 'stopped' })
  const endedAgo = (seconds: number) =>
    db('users')
      .where({ id: one.owner_id })
      .update({ plan_ends_at: ago(seconds) })
  await endedAgo(30 * daySeconds - 60)
  t.deepEqual(await round(), [one.id])
  await ended(one.id)
  await pass(daySeconds)
  await endedAgo(30 * daySeconds + 60)
  t.deepEqual(await round(), [])
  await endedAgo(-daySeconds)
  t.deepEqual(await round(), [one.id], 'as soon as there is a plan again')
})

test.serial('an account with 1,000 due databases delays another by one snapshot', async t => {
  const { db } = await database
  const many = await store({ created_at: ago(90 * daySeconds) })
  await db.raw(
    `insert into databases select copy.*
       from databases d, generate_series(1, 999) n,
            jsonb_populate_record(d, jsonb_build_object(
         'id', lpad(to_hex(n), 32, '0'), 'uid', 50000 + n, 'port', 30000 + n, 'snapshot_due_at', now() - interval '9 days')) copy
       where d.id = ?`,
    [many.id],
  )
  const next = async () => {
    const queued = await round()
    t.true(queued.length <= 1, 'one at a time')
    for (const id of queued) await ended(id)
    return queued.length === 0 ? null : (await db('databases').where({ id: queued[0]! }).first()).owner_id
  }
  t.is(await next(), many.owner_id)
  t.is(await next(), many.owner_id)
  // Its database waits for a moment, the others for days, and none has a snapshot yet.
  const other = await store({ snapshot_due_at: ago(1) })
  t.is(await next(), other.owner_id)
  const third = await store({ snapshot_due_at: ago(1) })
  const fourth = await store({ snapshot_due_at: ago(1), ownerId: third.owner_id })
  t.deepEqual([await next(), await next(), await next()], [third.owner_id, many.owner_id, third.owner_id])
  t.is(await next(), many.owner_id)
  t.deepEqual((await db('snapshots').whereIn('target_id', [third.id, fourth.id])).length, 2)

  // A day later all are due again, those of the many before the single one.
  await pass(daySeconds + 60)
  const order = [await next(), await next(), await next(), await next()]
  t.deepEqual(new Set(order), new Set([other.owner_id, third.owner_id, many.owner_id]), `${order}`)
})

test.serial('first snapshots are spread over the day', async t => {
  const { db } = await database
  const { owner_id: ownerId } = await store({ provisioned_at: ago(daySeconds / 2) })
  for (let n = 1; n < 60; n++) await store({ ownerId, provisioned_at: ago(daySeconds / 2) })
  const { later } = await listDueForSnapshot(
    db,
    { plans, everySeconds: daySeconds, retrySeconds: hourSeconds },
    'database',
  )
  t.true(later.length > 5 && later.length < 55, `${later.length} of 60 are due in the other half of the day`)
})

test.serial('a host makes two at a time, of two accounts; hosts do not wait for each other', async t => {
  const [a, c] = [await store(), await store({ hostId: 'h2' })]
  const second = await store({ ownerId: a.owner_id })
  const first = await round()
  t.is(first.length, 2)
  t.true(first.includes(c.id))
  t.deepEqual(await round(), [], 'the account has one')
  const others = [await store(), await store()].map(({ id }) => id)
  const next = await round()
  t.is(next.length, 1)
  t.true(others.includes(next[0]!), 'of another account, beside the first')
  t.deepEqual(await round(), [], 'two at a time')
  const [ofA] = first.filter(id => id !== c.id)
  await ended(ofA!)
  t.deepEqual(
    await round(),
    others.filter(id => id !== next[0]),
    'the account that waits before the one that had its turn',
  )
  await ended(next[0]!)
  t.deepEqual(
    await round(),
    [a.id, second.id].filter(id => id !== ofA),
  )
})

test.serial('a snapshot that fails is tried again after 1, 2, 4 and then every 6 hours, until one is good', async t => {
  const { id } = await store()
  t.deepEqual(await round(), [id])
  for (const hours of [1, 2, 4, 6, 6]) {
    await ended(id, 'failed')
    await pass(hours * hourSeconds - 60)
    t.deepEqual(await round(), [], `${hours} hours`)
    await pass(61)
    t.deepEqual(await round(), [id], `${hours} hours`)
  }
  await ended(id)
  await pass(daySeconds + 1)
  t.deepEqual(await round(), [id])
  await ended(id, 'failed')
  await pass(hourSeconds + 1)
  t.deepEqual(await round(), [id], 'the next failure is the first one again')
})

test.serial(
  'a snapshot that does not end delays the others of its account for an hour, and is given up when the next is due',
  async t => {
    const { db } = await database
    const a = await store()
    const b = await store({ ownerId: a.owner_id })
    const [stuck] = await round()
    const other = stuck === a.id ? b.id : a.id
    const { operation_id: id } = await db('snapshots').first()
    await db('operations').where({ id }).update({ state: 'running', started_at: new Date() })
    await pass(hourSeconds + 10)
    t.deepEqual(await round(), [other])
    await ended(other)
    await pass(daySeconds - hourSeconds)
    woken.length = 0
    t.deepEqual(await round(), [])
    t.deepEqual(woken, [stuck!])
    t.like(await db('operations').where({ id }).first(), { state: 'running', cancel_requested_by: 'platform' })
  },
)

test.serial('a round looks at a limited number of each host, and postpones those that are not due yet', async t => {
  const { db } = await database
  const free = await store({ plan: 'free' })
  await db.raw(
    `insert into databases select copy.*
       from databases d, generate_series(1, ?) n,
            jsonb_populate_record(d, jsonb_build_object(
         'id', lpad(to_hex(n), 32, '0'), 'uid', 50000 + n, 'port', 30000 + n)) copy
       where d.id = ?`,
    [snapshotLooks.atOnce + 5, free.id],
  )
  const look = () => listDueForSnapshot(db, { plans, everySeconds: daySeconds, retrySeconds: hourSeconds }, 'database')
  t.is((await look()).later.length, snapshotLooks.atOnce)
  t.deepEqual(await round(), [])
  t.is((await look()).later.length, 6)
  await round()
  t.deepEqual(await look(), { due: [], later: [] })
  await db('users').where({ id: free.owner_id }).update({ plan: 'standard-4' })
  t.is((await round()).length, 1, 'with a plan they are looked at at once')
})

test.serial('there is none during a restore, and a snapshot that a restore reads is not removed', async t => {
  const { db } = await database
  const { id, owner_id: ownerId } = await store()
  const later = await store({ ownerId })
  await queueDatabaseSnapshot(db, { databaseId: id, ownerId, actor: ownerId, origin: 'manual', plans })
  const read = await ended(id, 'good', 'one')
  await queueDatabaseSnapshot(db, { databaseId: id, ownerId, actor: ownerId, origin: 'manual', plans })
  const expired = await ended(id, 'good', 'two')
  // Into another database of the account.
  const restore = { databaseId: later.id, actor: ownerId, name: read.name, version: read.id, accepting: true }
  const { id: operation } = await queueDatabaseRestore(db, restore)
  await pass(30 * daySeconds + 60)
  const left = () => db('snapshots').where({ state: 'good' }).pluck('id')
  for (const state of ['accepting', 'queued', 'running']) {
    await db('operations').where({ id: operation }).update({ state })
    await sweepSnapshots(db)
    t.deepEqual(await left(), [read.id], state)
  }
  t.falsy(await db('snapshots').where({ id: expired.id }).first())
  t.deepEqual(await round(), [id], 'and not of the one that is restored')
  await db('operations').where({ id: operation }).update({ state: 'success', finished_at: new Date() })
  await sweepSnapshots(db)
  t.deepEqual(await left(), [])
})

test.serial('after three days without a good snapshot the owner is warned once, until there is one', async t => {
  const { db } = await database
  const { id, owner_id: ownerId } = await store()
  const mails = () => db('mails').where({ user_id: ownerId }).select('template', 'fields').orderBy('created_at')
  await round()
  await ended(id)
  await pass(3 * daySeconds - 60)
  t.deepEqual(await warnings(), [])
  await round()
  await ended(id, 'failed')
  await pass(61)
  t.deepEqual(await warnings(), [id])
  t.deepEqual(await mails(), [
    {
      template: 'database-snapshots-failing',
      fields: {
        ...{ database: 'orders', days: automaticSnapshotRules.warnDays },
        ...{ unsaved: `orders (${automaticSnapshotRules.warnDays})`, unsavedCount: 1 },
      },
    },
  ])
  await pass(5 * daySeconds)
  t.deepEqual(await warnings(), [], 'once')
  t.deepEqual(await round(), [id])
  await ended(id)
  await pass(daySeconds)
  t.deepEqual(await round(), [id])
  await ended(id, 'failed')
  await pass(3 * daySeconds + 60)
  t.deepEqual(await warnings(), [id], 'another time')
  t.like((await mails())[1], { fields: { days: 4 } })
})

test.serial(
  'no owner is warned of a database that has no snapshots: without a plan, deleted, or lost with its host',
  async t => {
    const { db } = await database
    const free = await store({ plan: 'free' })
    await store({ desired_state: 'deleted' })
    await store({ lost_with: 'h2' })
    const past = await store()
    await db('users')
      .where({ id: past.owner_id })
      .update({ plan_ends_at: ago(31 * daySeconds) })
    await pass(4 * daySeconds)
    t.deepEqual(await warnings(), [])
    t.is((await db('databases').where('snapshot_warn_at', '<=', new Date())).length, 0, 'they are looked at later')
    await db('users').where({ id: free.owner_id }).update({ plan: 'standard-4' })
    t.deepEqual(await round(), [free.id])
    await ended(free.id, 'failed')
    await pass(3 * daySeconds - 60)
    t.deepEqual(await warnings(), [], 'its time begins with its plan')
    await pass(61)
    t.deepEqual(await warnings(), [free.id])
    t.is(Number((await db('mails').count())[0]!.count), 1)
  },
)

test.serial('concurrent rounds and warnings in two processes act once', async t => {
  const { db } = await database
  const { id } = await store()
  const both = (await Promise.all([round(), round()])).flat()
  t.deepEqual(both, [id])
  await pass(4 * daySeconds)
  t.deepEqual((await Promise.all([warnings(), warnings()])).flat(), [id])
  t.is(Number((await db('mails').count())[0]!.count), 1)
})
