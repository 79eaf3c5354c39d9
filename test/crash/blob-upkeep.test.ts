import test from 'ava'
import { type Db, transaction } from '../../db/database.ts'
import { listReceipts } from '../../db/objects/blob-receipts.ts'
import { lockNames } from '../../db/objects/objects.ts'
import { foldAllUsage, readMonthUsage } from '../../db/objects/usage-upkeep.ts'
import { newId } from '../../policy/ids.ts'
import { type Upkeep, upkeepTimes } from '../../policy/objects/blob-upkeep.ts'
import { objectId } from '../../policy/objects/object-names.ts'
import { openTemporal } from '../../workers/connect.ts'
import type { blobUpkeep } from '../../workflows/blob-upkeep.ts'
import { platformQueue } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { diesAt } from '../kit/crash/crash-kit.ts'
import { linesBySubject, untidyAccount } from '../kit/objects/upkeep.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'

const started = testPlatform({ worker: false, api: false, hosts: {} })
const removing = ['expiry', 'rules', 'reclaim', 'sweep'] as const
/** They only count: what of them was cut is done again, and comes to the same. */
const counting = ['fold', 'sample', 'recount'] as const

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
})

/** Starts runs of these kinds concurrently. */
async function begin(kinds: readonly Upkeep[]) {
  const { base } = await started
  const client = openTemporal(base.config, null)
  const runs = await Promise.all(
    kinds.map(kind =>
      client.workflow.start<typeof blobUpkeep>('blobUpkeep', {
        workflowId: `blob-test/${newId()}`,
        taskQueue: platformQueue(base.config.queuePrefix),
        args: [kind],
      }),
    ),
  )
  return {
    ended: () => Promise.all(runs.map(run => run.result())),
    close: () => client.connection.close(),
  }
}

/** The kinds whose runs have removed something. */
const startedUpkeep = async (db: Db): Promise<Upkeep[]> =>
  db('blob_receipts as r').join('blob_receipt_lines as l', 'l.receipt_id', 'r.id').distinct().pluck('r.kind')

/** Statements that wait for the usage of an account. */
async function waiting(db: Db): Promise<number> {
  const { rows } = await db.raw(
    `select count(*)::integer as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%blob_usage%'`,
  )
  return rows[0].n
}

test.serial(
  'a worker killed in the middle of every kind of run: everything due is removed, each thing once',
  async t => {
    t.timeout(300_000)
    const { base, db } = await started
    const count = 120 // more than go in one transaction
    const { ownerId, name, uploads, bodies } = await untidyAccount(db, base.store, count)
    const numbers = Array.from({ length: count }, (_, n) => String(n).padStart(5, '0'))
    const objects = ['expired', 'logs'].flatMap(folder => numbers.map(n => name(`${folder}/${n}`)))
    const expired = db('objects').where({ owner_id: ownerId, key: 'expired/00110' })
    await expired.update({ expires_at: new Date(Date.now() - 1000) })
    const drawn = db('segments').where({ id: bodies[110] })
    await drawn.update({ drawn_at: new Date(Date.now() - upkeepTimes.drawnSeconds * 1000 - 36 * 3600_000) })
    await foldAllUsage(db)
    await db('usage_deltas').insert([5, -5].map(bytes => ({ owner_id: ownerId, objects: 0, bytes })))
    const runs = await begin([...removing, ...counting])
    t.teardown(runs.close)
    const killed = startEntry('worker', base.settings)
    t.teardown(() => killed.kill('SIGKILL'))
    await transaction(db, async trx => {
      // A lock on one of the last items of each puts the kill in the middle of each.
      await lockNames(trx, [name('expired/00110'), name('logs/00110')])
      await trx('uploads').where({ id: uploads[110] }).forUpdate().first('id')
      await trx('segments').where({ id: bodies[110] }).forUpdate().first('id')
      await trx('blob_usage').where({ owner_id: ownerId }).forUpdate().first('owner_id')
      await comesTrue(async () => (await startedUpkeep(db)).length >= removing.length)
      await comesTrue(async () => (await waiting(db)) >= counting.length)
      await killed.kill('SIGKILL')
    })
    const left = async () => (await db('objects').where({ owner_id: ownerId })).length
    t.true((await left()) > 1)
    const healed = startEntry('worker', base.settings)
    t.teardown(() => healed.kill('SIGKILL'))
    await runs.ended()
    t.deepEqual(await db('objects').where({ owner_id: ownerId }).pluck('key'), ['kept.txt'])
    t.deepEqual(await db('uploads').whereIn('id', uploads).distinct().pluck('state'), ['aborted'])
    for (const id of bodies) t.is(await base.store.head(id), null)
    const subjects = [...objects.map(objectId), ...uploads, ...bodies]
    const lines = await linesBySubject(db, subjects)
    t.deepEqual(
      subjects.filter(subject => lines.get(subject) !== 1),
      [],
    )
    const receipts = await listReceipts(db, { idle: true, limit: 100 })
    t.deepEqual(receipts.map(({ kind }) => kind).sort(), [...removing, ...counting].sort())
    t.like(await readMonthUsage(db, ownerId), { objects: 1, storage: 'kept'.length })
    t.true(receipts.every(({ ended_at, failure, unproved }) => ended_at !== null && failure === null && unproved === 0))
  },
)

for (const point of ['store.delete:after', 'upkeep.closeReceipt:after'])
  test.serial(`a worker that dies at ${point} of a sweep: the segment is removed once, and reported once`, async t => {
    t.timeout(120_000)
    const { base, db } = await started
    const { bodies } = await untidyAccount(db, base.store, 1)
    const runs = await begin(['sweep'])
    t.teardown(runs.close)
    await diesAt(t, startEntry('worker', { ...base.settings, CRASH_POINT: point }), point)
    const healed = startEntry('worker', base.settings)
    t.teardown(() => healed.kill('SIGKILL'))
    await runs.ended()
    t.is(await base.store.head(bodies[0]!), null)
    t.deepEqual([...(await linesBySubject(db, bodies)).values()], [1])
    t.is(await db('segments').where({ id: bodies[0] }).first(), undefined)
  })
