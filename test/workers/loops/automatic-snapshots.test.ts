import test from 'ava'
import { pino } from 'pino'
import type { AppRow } from '../../../db/apps/apps.ts'
import { transaction } from '../../../db/database.ts'
import * as segments from '../../../db/objects/segments.ts'
import { finishOperation } from '../../../db/operations/operations.ts'
import { listDueForSnapshot, postponeSnapshots } from '../../../db/snapshots/automatic-snapshots.ts'
import { queueRestore } from '../../../db/snapshots/restores.ts'
import { sweepSnapshots } from '../../../db/snapshots/snapshot-retention.ts'
import { postponeSnapshotWarning } from '../../../db/snapshots/snapshot-warnings.ts'
import {
  findSnapshotByOperation,
  markSnapshotFailed,
  markSnapshotGood,
  queueSnapshot,
  type SnapshotRow,
} from '../../../db/snapshots/snapshots.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { newId } from '../../../policy/ids.ts'
import { snapshotLooks } from '../../../policy/rounds.ts'
import { type AutomaticOptions, queueDue, warnOfMissingSnapshots } from '../../../workers/loops/automatic-snapshots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })
const daySeconds = 86_400
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000)

test.beforeEach(async () => {
  const { db } = await database
  await db.raw('truncate users, hosts, apps, operations, deployments, snapshots, segments cascade')
  await rows(db).host('h1', { memoryMb: 65_536 })
})

/** An application that was provisioned two days ago, its creation over; of a new account or this one. */
async function app(plan = 'standard-4', hostId = 'h1', ownerId?: string): Promise<AppRow> {
  const { db } = await database
  const make = rows(db)
  const made = await make.app(ownerId ?? (await make.user(plan)).id)
  await db('operations').where({ id: made.operationId }).update({ state: 'success', finished_at: new Date() })
  const changes = { provisioned_at: ago(2 * daySeconds), host_id: hostId }
  const [row] = await db('apps').where({ id: made.app.id }).update(changes).returning('*')
  return row
}

async function round(more: Partial<AutomaticOptions> = {}): Promise<string[]> {
  const { db } = await database
  const lanes = { wake: async () => {} }
  return queueDue({ db, plans, log, lanes, databaseLanes: lanes, ...more })
}

/** Time passes: what was is so many seconds longer ago. */
async function pass(seconds: number): Promise<void> {
  const { db } = await database
  await db.raw('update snapshots set created_at = created_at - make_interval(secs => ?)', [seconds])
  await db.raw('update mails set created_at = created_at - make_interval(secs => ?)', [seconds])
  await db.raw(
    `update apps set snapshot_due_at = snapshot_due_at - make_interval(secs => :seconds),
       snapshot_tried_at = snapshot_tried_at - make_interval(secs => :seconds),
       snapshot_warn_at = snapshot_warn_at - make_interval(secs => :seconds)`,
    { seconds },
  )
}

/** Ends the snapshot in progress, which was requested `seconds` ago. */
async function made(appId: string, { seconds = 0, state = 'good', digest = appId } = {}): Promise<SnapshotRow> {
  const { db } = await database
  const row: SnapshotRow = await db('snapshots').where({ target_id: appId, state: 'making' }).first()
  if (state === 'good') {
    const stored = { segmentId: await segments.allocateSegment(db), size: 10, sha256: 'a'.repeat(64), digest }
    await transaction(db, trx => markSnapshotGood(trx, row.operation_id, stored))
  } else await markSnapshotFailed(db, row.operation_id)
  await db('operations').where({ id: row.operation_id }).update({ state: 'success', finished_at: new Date() })
  await db('snapshots')
    .where({ id: row.id })
    .update({ created_at: ago(seconds) })
  return (await findSnapshotByOperation(db, row.operation_id)) as SnapshotRow
}

test.serial('there is one a day: the next one is due when the last is a day old', async t => {
  const { id } = await app()
  t.deepEqual(await round(), [id])
  t.deepEqual(await round(), [], 'while it is made')
  await made(id)
  for (const seconds of [3700, daySeconds - 3700 - 60]) {
    await pass(seconds)
    t.deepEqual(await round(), [])
  }
  await pass(61)
  t.deepEqual(await round(), [id])
  const { db } = await database
  const last = await db('snapshots').where({ state: 'making' }).first()
  t.like(last, { origin: 'automatic', name: `${id}_javascript_automatic` })
  t.is((await db('operations').where({ id: last.operation_id }).first()).actor, 'platform')
})

test.serial(
  'a manual snapshot does not replace the daily one, and the daily one does not count towards the plan',
  async t => {
    const { db } = await database
    const { id, owner_id: ownerId } = await app('hobby-1')
    const byHand = () => queueSnapshot(db, { appId: id, ownerId, actor: ownerId, origin: 'manual', plans })
    await byHand()
    t.deepEqual(await round(), [], 'not while another is taken')
    await made(id)
    t.deepEqual(await round(), [id])
    await made(id)
    for (let n = 1; n < 8; n++) {
      await byHand()
      await made(id)
    }
    await t.throwsAsync(byHand, { message: /no more snapshots/ })
  },
)

test.serial('a host makes two snapshots at a time, of two accounts, the one that waits longest first', async t => {
  const { db } = await database
  await rows(db).host('h2')
  const [a, c] = [await app(), await app('standard-4', 'h2')]
  const b = await app('standard-4', 'h1', a.owner_id)
  const first = await round()
  t.deepEqual(first.length, 2)
  t.true(first.includes(c.id))
  const other = first.includes(a.id) ? b.id : a.id
  t.deepEqual(await round(), [], 'its account has one')
  const [d, e] = [await app(), await app()]
  const [second, ...none] = await round()
  t.true([d.id, e.id].includes(second!) && none.length === 0)
  t.deepEqual(await round(), [], 'two at a time')
  for (const id of first) await made(id)
  const next = [...(await round()), ...(await round())]
  await made(second!)
  t.deepEqual([...next, ...(await round())].sort(), [other!, second === d.id ? e.id : d.id].sort())
})

test.serial(
  'an account with more applications than a round reads, and one that never ends, delays no other',
  async t => {
    const { db } = await database
    const many = await app()
    await db.raw(
      `insert into apps select copy.*
       from apps a, generate_series(1, ?) n,
            jsonb_populate_record(a, jsonb_build_object(
              'id', lpad(to_hex(n), 24, '0'), 'uid', 50000 + n, 'subdomain', null, 'snapshot_due_at', now() - interval '9 days')) copy
      where a.id = ?`,
      [snapshotLooks.atOnce + 5, many.id],
    )
    t.is((await round()).length, 1)
    const other = await app()
    t.deepEqual(await round(), [other.id])
  },
)

test.serial('two accounts with more applications than a round reads delay a third by one snapshot at most', async t => {
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 10_000_000 })
  const backlog = [await app(), await app()]
  for (const [n, { id }] of backlog.entries())
    await db.raw(
      `insert into apps select copy.*
         from apps a, generate_series(1, :many) n,
              jsonb_populate_record(a, jsonb_build_object('id', lpad(to_hex(:n * 1000 + n), 24, '0'), 'uid', 50000 + :n * 1000 + n,
                'subdomain', null, 'created_at', now() - interval '90 days', 'snapshot_due_at', now() - interval '9 days')) copy
        where a.id = :id`,
      { id, n: n + 1, many: snapshotLooks.atOnce + 5 },
    )
  const underWay = [...(await round()), ...(await round())]
  t.is(underWay.length, 2)
  // It waits for a moment, all the others for days.
  const third = await app()
  await db('apps')
    .where({ id: third.id })
    .update({ snapshot_due_at: ago(1) })
  await made(underWay[0]!)
  t.deepEqual(await round(), [third.id])
  // From then on they alternate.
  const fourth = await app('standard-4', 'h1', third.owner_id)
  await db('apps')
    .where({ id: fourth.id })
    .update({ snapshot_due_at: ago(1) })
  await made(third.id)
  await made(underWay[1]!)
  const owners = await db('apps')
    .whereIn('id', [...(await round()), ...(await round())])
    .pluck('owner_id')
  t.deepEqual(owners.sort(), backlog.map(({ owner_id }) => owner_id).sort())
})

test.serial(
  'without a plan, after its end, for a blocked account, a silent host or an unprovisioned application there is none',
  async t => {
    const { db } = await database
    await app('free')
    const [ended, blocked, silent, fresh] = [await app(), await app(), await app(), await app()]
    await db('users')
      .where({ id: ended!.owner_id })
      .update({ plan_ends_at: ago(1) })
    await db('users').where({ id: blocked!.owner_id }).update({ blocked_at: new Date() })
    await rows(db).host('h2')
    await db('hosts')
      .where({ id: 'h2' })
      .update({ last_seen_at: ago(60) })
    await db('apps').where({ id: silent!.id }).update({ host_id: 'h2' })
    await db('apps').where({ id: fresh!.id }).update({ provisioned_at: null })
    t.deepEqual(await round(), [])
  },
)

test.serial('first snapshots are spread over the day by application id', async t => {
  const { db } = await database
  const apps = await Promise.all(Array.from({ length: 24 }, () => app()))
  await db('apps').update({ provisioned_at: ago(daySeconds / 2) })
  const due: string[] = []
  for (let ids = await round(); ids.length > 0; ids = await round()) {
    due.push(...ids)
    for (const id of ids) await made(id)
  }
  t.true(due.length > 2 && due.length < 22, `${due.length} of ${apps.length} within half a day`)
})

test.serial('a failed snapshot is retried after an hour', async t => {
  const { id } = await app()
  await round()
  await made(id, { state: 'failed' })
  t.deepEqual(await round(), [])
  await pass(3500)
  t.deepEqual(await round(), [])
  await pass(200)
  t.deepEqual(await round(), [id])
})

test.serial('a round reads only due applications, and a limited number of each host', async t => {
  const { db } = await database
  const { id } = await app()
  const free = await Promise.all(Array.from({ length: 3 }, () => app('free')))
  await round()
  await made(id)
  await pass(3601)
  t.deepEqual(await round(), [], 'its next one is not due, and now that is known')
  const request = { plans, everySeconds: daySeconds, retrySeconds: 3600 }
  t.deepEqual(await listDueForSnapshot(db, request), { due: [], later: [] })
  await pass(daySeconds / 2)
  const { later } = await listDueForSnapshot(db, request)
  t.deepEqual(later.map(one => one.id).sort(), free.map(one => one.id).sort())

  // More than a round looks at, before one that is due.
  await db.raw(
    `insert into apps select (jsonb_populate_record(a, jsonb_build_object(
         'id', lpad(to_hex(n), 24, '0'), 'subdomain', null, 'uid', 50000 + n, 'host_port', null))).*
       from apps a, generate_series(1, ?) n where a.id = ?`,
    [snapshotLooks.atOnce + 5, free[0]!.id],
  )
  await db('apps')
    .whereNot({ id })
    .update({ snapshot_due_at: ago(2 * daySeconds) })
  await pass(daySeconds)
  await rows(db).host('h1', { memoryMb: 65_536 }) // it was seen just now
  t.is((await listDueForSnapshot(db, request)).later.length, snapshotLooks.atOnce - 1)
  t.deepEqual(await round(), [id], 'the first of each account is among them')
})

test.serial('an account with a paid plan gets snapshots from then on', async t => {
  const { db } = await database
  const { id, owner_id } = await app('free')
  t.deepEqual(await round(), [])
  t.deepEqual(await round(), [])
  await db('users').where({ id: owner_id }).update({ plan: 'standard-4' })
  t.deepEqual(await round(), [id])
})

test.serial('an application that is moved or locked during a round is not postponed', async t => {
  const { db } = await database
  const [moved, held] = [await app('free'), await app('free')]
  const { later } = await listDueForSnapshot(db, { plans, everySeconds: daySeconds, retrySeconds: 3600 })
  t.is(later.length, 2)
  const due = ago(10)
  await db('apps').where({ id: moved.id }).update({ snapshot_due_at: due })
  const other = await db.transaction()
  await other('apps').where({ id: held.id }).forUpdate().first('id')
  await postponeSnapshots(db, later)
  await other.rollback()
  t.deepEqual((await db('apps').where({ id: moved.id }).first()).snapshot_due_at, due)
  t.true((await db('apps').where({ id: held.id }).first()).snapshot_due_at <= new Date())
})

test.serial(
  'a snapshot that cannot be made delays the others of its account for an hour, and its own next day not at all',
  async t => {
    const { db } = await database
    const a = await app()
    const b = await app('standard-4', 'h1', a.owner_id)
    const [stuck] = await round()
    const other = stuck === a.id ? b.id : a.id
    const { operation_id: id } = await db('snapshots').where({ target_id: stuck! }).first()
    const running = { state: 'running', started_at: new Date(), step: 'waiting for its host' }
    await db('operations').where({ id }).update(running)
    await pass(3500)
    t.deepEqual(await round(), [])
    await pass(200)
    t.deepEqual(await round(), [other])
    await made(other)
    await pass(daySeconds - 3760)
    t.deepEqual(await round(), [])
    await pass(120)
    const woken: string[] = []
    t.deepEqual(await round({ lanes: { wake: async appId => void woken.push(appId) } }), [])
    t.deepEqual(woken, [stuck!])
    t.like(await db('operations').where({ id }).first(), { state: 'running', cancel_requested_by: 'platform' })
    // The end that its lane records.
    await markSnapshotFailed(db, id)
    await finishOperation(db, id, { state: 'cancelled' })
    t.deepEqual(await round(), [stuck!])
    const { operation_id: queued } = await db('snapshots').where({ target_id: stuck!, state: 'making' }).first()
    await db('snapshots')
      .where({ operation_id: queued })
      .update({ created_at: ago(daySeconds + 60) })
    await db('apps')
      .where({ id: stuck! })
      .update({ snapshot_due_at: ago(60), snapshot_tried_at: ago(daySeconds + 60) })
    t.deepEqual(await round(), [], 'ended in this round')
    t.is((await findSnapshotByOperation(db, queued))?.state, 'failed')
    t.deepEqual(await round(), [stuck!])
  },
)

test.serial('a snapshot that cannot be queued delays no others', async t => {
  const { db } = await database
  const [a, b] = [await app(), await app()]
  await rows(db).host('h2')
  const c = await app('standard-4', 'h2')
  // Waits longest, and its row is refused.
  await db('apps').whereIn('id', [b.id, c.id]).update({ created_at: new Date() })
  await db.raw(`alter table snapshots add constraint refused check (target_id <> '${a.id}')`)
  t.teardown(() => db.raw('alter table snapshots drop constraint refused'))
  t.deepEqual(await round(), [c.id])
  t.deepEqual(await round(), [b.id])
  await made(b.id)
  t.deepEqual(await round(), [])
})

test.serial(
  'a snapshot that fails is tried again after 1, 2, 4 and then every 6 hours; after three days its owner is warned once',
  async t => {
    const { db } = await database
    const { id, name, owner_id: ownerId } = await app()
    await app('free')
    const lanes = { wake: async () => {} }
    const warnings = () => warnOfMissingSnapshots({ db, plans, log, lanes, databaseLanes: lanes })
    t.deepEqual(await round(), [id])
    for (const hours of [1, 2, 4, 6, 6]) {
      await made(id, { state: 'failed' })
      await pass(hours * 3600 - 60)
      t.deepEqual(await round(), [], `${hours} hours`)
      await pass(61)
      t.deepEqual(await round(), [id], `${hours} hours`)
    }
    await made(id, { state: 'failed' })
    t.deepEqual(await warnings(), [])
    await pass(3 * daySeconds - 19 * 3600)
    t.deepEqual(await warnings(), [id])
    await pass(daySeconds)
    t.deepEqual(await warnings(), [], 'once')
    t.deepEqual(await db('mails').where({ user_id: ownerId }).select('template', 'fields'), [
      { template: 'app-snapshots-failing', fields: { app: name, days: 3, unsaved: `${name} (3)`, unsavedCount: 1 } },
    ])
    await transaction(db, trx => postponeSnapshotWarning(trx, 'app', id))
    await pass(3 * daySeconds + 60)
    t.deepEqual(await warnings(), [id], 'there was a good one')
  },
)

test.serial(
  'an account is mailed once a day about all of its applications without snapshots, and no other waits',
  async t => {
    const { db } = await database
    const [first, other] = [await app(), await app()]
    const rest: AppRow[] = []
    for (let n = 0; n < 25; n++) rest.push(await app())
    await db('apps')
      .whereIn(
        'id',
        rest.map(({ id }) => id),
      )
      .update({ owner_id: first.owner_id })
    const lanes = { wake: async () => {} }
    const warned = async () =>
      (await warnOfMissingSnapshots({ db, plans, log, lanes, databaseLanes: lanes })).toSorted()
    const ids = rest.map(({ id }) => id).toSorted()
    await db('apps').update({
      snapshot_tried_at: new Date(),
      provisioned_at: ago(3 * daySeconds + 3600),
      snapshot_warn_at: ago(60),
    })
    await db('apps')
      .whereIn('id', ids)
      .update({ snapshot_warn_at: ago(-3600), provisioned_at: ago(4 * daySeconds) })
    t.deepEqual(await warned(), [first.id, other.id].toSorted())
    await pass(2 * 3600)
    t.deepEqual(await warned(), [], 'they wait for the end of the day')
    await pass(21 * 3600)
    t.deepEqual(await warned(), [])
    await pass(3601)
    t.deepEqual(await warned(), ids, 'all of them together')
    await pass(2 * daySeconds)
    t.deepEqual(await warned(), [])
    const mails = await db('mails').where({ user_id: first.owner_id }).orderBy('created_at', 'asc')
    t.is(mails.length, 2)
    const { unsaved, unsavedCount } = mails[1].fields
    t.is(unsavedCount, 25)
    t.regex(unsaved, /^(\S+ \(4\), ){20}…$/)
    t.is((await db('mails').where({ user_id: other.owner_id })).length, 1)
  },
)

test.serial('a single mail counts all due applications of an account, also more than a round looks at', async t => {
  const { db } = await database
  const { owner_id } = await app()
  await db('apps').update({ snapshot_warn_at: null })
  const model = await db('apps').where({ owner_id }).first()
  const rows = Array.from({ length: 130 }, (_, n) => ({
    ...model,
    ...{
      id: newId().slice(0, 24),
      host_port: 30_000 + n,
      subdomain: `${model.subdomain}-${n}`,
      snapshot_warn_at: ago(60),
      snapshot_tried_at: new Date(),
    },
    provisioned_at: ago(3 * daySeconds + 3600),
  }))
  await db('apps').insert(rows)
  const lanes = { wake: async () => {} }
  t.is((await warnOfMissingSnapshots({ db, plans, log, lanes, databaseLanes: lanes })).length, 130)
  const [mail] = await db('mails').where({ user_id: owner_id })
  t.is(mail.fields.unsavedCount, 130)
  await db('apps').where({ owner_id }).delete()
})

test.serial(
  'no owner is warned while none was tried, while one is being made, or while the host is silent',
  async t => {
    const { db } = await database
    const { id } = await app()
    const lanes = { wake: async () => {} }
    const warnings = () => warnOfMissingSnapshots({ db, plans, log, lanes, databaseLanes: lanes })
    await round()
    await made(id)
    // The platform was off.
    await pass(4 * daySeconds)
    t.deepEqual(await warnings(), [])
    t.deepEqual(await round(), [id])
    await pass(snapshotLooks.withoutPlanSeconds - 1)
    await db('snapshots').where({ state: 'making' }).update({ created_at: new Date() })
    await pass(2)
    t.deepEqual(await warnings(), [])
    await made(id, { state: 'failed' })
    await pass(snapshotLooks.withoutPlanSeconds + 1)
    await db('hosts').update({ last_seen_at: ago(3600) })
    t.deepEqual(await warnings(), [])
    await db('hosts').update({ last_seen_at: new Date() })
    t.deepEqual(await warnings(), [], 'it is looked at later')
    await pass(snapshotLooks.withoutPlanSeconds + 1)
    t.deepEqual(await warnings(), [id])
  },
)

test.serial('there is no snapshot during a restore', async t => {
  const { db } = await database
  const { id, owner_id: ownerId } = await app()
  await queueSnapshot(db, { appId: id, ownerId, actor: ownerId, origin: 'manual', plans })
  const { id: version, name } = await made(id)
  const restore = await queueRestore(db, { appId: id, actor: ownerId, name, version })
  t.deepEqual(await round(), [])
  await db('operations').where({ id: restore.id }).update({ state: 'running' })
  await finishOperation(db, restore.id, { state: 'success' })
  t.deepEqual(await round(), [id])
})

test.serial(
  'after thirty days a snapshot and its segment are removed, but not while a restore reads it; failed ones after one day',
  async t => {
    const { db } = await database
    const { id, owner_id: ownerId } = await app()
    const make = async (more: object) => {
      await queueSnapshot(db, { appId: id, ownerId, actor: ownerId, origin: 'manual', plans })
      return made(id, more)
    }
    const month = 30 * daySeconds
    const young = await make({ seconds: month - 60, digest: 'same' })
    const old = await make({ seconds: month + 60, digest: 'same' })
    const read = await make({ seconds: month + 60, digest: 'read' })
    await make({ seconds: daySeconds + 60, state: 'failed' })
    const failed = await make({ seconds: daySeconds - 60, state: 'failed' })
    const { segment_id: body } = await db('snapshots').where({ id: young.id }).first()
    t.is(body, old.segment_id, 'equal files have one body')
    const restore = await queueRestore(db, { appId: id, actor: ownerId, name: read.name, version: read.id })
    const left = async () => (await db('snapshots').select('id')).map(row => row.id).sort()
    t.is(await sweepSnapshots(db), 2)
    t.deepEqual(await left(), [young.id, read.id, failed.id].sort())
    t.is((await db('segments').where({ id: body }).first()).refs, 1)
    await db('operations').where({ id: restore.id }).update({ state: 'success', finished_at: new Date() })
    t.is(await sweepSnapshots(db), 1)
    t.is((await db('segments').where({ id: read.segment_id }).first()).refs, 0)
  },
)

test.serial('a snapshot row whose operation ended without it no longer counts as in progress', async t => {
  const { db } = await database
  const { id, owner_id: ownerId } = await app()
  const row = await queueSnapshot(db, { appId: id, ownerId, actor: ownerId, origin: 'manual', plans })
  await sweepSnapshots(db)
  t.is((await findSnapshotByOperation(db, row.operation_id))?.state, 'making')
  await db('operations').where({ id: row.operation_id }).update({ state: 'cancelled', finished_at: new Date() })
  await sweepSnapshots(db)
  t.is((await findSnapshotByOperation(db, row.operation_id))?.state, 'failed')
})
