import test from 'ava'
import { type Db, openDatabase } from '../../../db/database.ts'
import { listDueForSnapshot } from '../../../db/snapshots/automatic-snapshots.ts'
import { snapshotRetention, sweepSnapshots } from '../../../db/snapshots/snapshot-retention.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const everySeconds = 86_400
const [applications, databases, snapshotsOfEach] = [200, 50, 200]

interface Node {
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  Plans?: Node[]
}

/** How many rows of a table a plan has looked at. */
function looked(node: Node, table: string): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  const own = node['Relation Name'] === table ? (node['Actual Rows'] + removed) * node['Actual Loops'] : 0
  return (node.Plans ?? []).reduce((sum, inner) => sum + looked(inner, table), own)
}

/** How many snapshots are looked at by `work`, which gets none of them. */
async function snapshotsLookedAt(db: Db, work: (trx: Db) => Promise<unknown>): Promise<number> {
  let sum = 0
  await db.transaction(async trx => {
    const raw = async (sql: string, values: Record<string, number>) => {
      const { rows } = await trx.raw(`explain (analyze, timing off, format json) ${sql}`, values)
      sum += looked(rows[0]['QUERY PLAN'][0].Plan, 'snapshots')
      return { rowCount: 0, rows: [] }
    }
    const explained: Db = new Proxy(trx, {
      get(target, key) {
        if (key === 'raw') return raw
        if (key === 'transaction') return (inner: (trx: Db) => unknown) => inner(explained)
        return Reflect.get(target, key)
      },
    })
    await work(explained)
    await trx.rollback()
  })
  return sum
}

test.before(async () => {
  const { db: near, url } = await database
  const db = openDatabase({ url, pool: 1, statementTimeoutMs: 120_000 })
  const make = rows(near)
  await make.host('h')
  const user = await make.user('standard-4')
  const { app, operationId } = await make.app(user.id)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db.raw(
    `insert into apps select (jsonb_populate_record(a, jsonb_build_object(
         'id', lpad(to_hex(n), 24, '0'), 'subdomain', null, 'uid', 50000 + n, 'provisioned_at', now() - interval '90 days'))).*
       from apps a, generate_series(1, ?) n where a.id = ?`,
    [applications, app.id],
  )
  // A month of automatic ones and many by hand; a few that are too old, or failed a while ago.
  await db.raw(
    `insert into snapshots (id, target_id, owner_id, operation_id, name, origin, state, created_at)
     select md5(a.id || n), a.id, a.owner_id, ?, 's', case when n % 2 = 0 then 'automatic' else 'manual' end,
            case when n = 7 then 'failed' else 'good' end,
            now() - make_interval(days => case when n = ? and a.uid % 100 = 0 then 31 else n % 30 end, hours => -1)
       from apps a, generate_series(1, ?) n where a.id <> ?`,
    [operationId, snapshotsOfEach, snapshotsOfEach, app.id],
  )
  await db.raw(
    `insert into databases (id, owner_id, name, engine, version, image, ram_mb, reserved_mb, cpu, host_id, port, provisioned_at)
     select lpad(to_hex(n), 32, '0'), ?, 'n', 'redis', '8', 'i', 512, 512, 1, 'h', 20000 + n, now() - interval '90 days'
       from generate_series(1, ?) n`,
    [user.id, databases],
  )
  await db.raw(
    `insert into snapshots (id, target_type, target_id, owner_id, operation_id, name, origin, state, created_at)
     select md5(d.id || n), 'database', d.id, d.owner_id, ?, 's', case when n % 2 = 0 then 'automatic' else 'manual' end, 'good',
            now() - make_interval(days => n % 30, hours => -1)
       from databases d, generate_series(1, ?) n`,
    [operationId, snapshotsOfEach],
  )
  await db.raw('analyze snapshots, apps, databases, operations')
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  await db.destroy()
})

test.serial('daily snapshots read the last snapshots of each application, however many it has', async t => {
  const { db } = await database
  const seen = await snapshotsLookedAt(db, trx => listDueForSnapshot(trx, { plans, everySeconds, retrySeconds: 3600 }))
  t.true(seen > 0 && seen <= 3 * (applications + 1), `${seen} of ${applications * snapshotsOfEach}`)
})

test.serial('daily snapshots of databases read the last snapshots of each, however many it has', async t => {
  const { db } = await database
  const seen = await snapshotsLookedAt(db, trx =>
    listDueForSnapshot(trx, { plans, everySeconds, retrySeconds: 3600 }, 'database'),
  )
  t.true(seen > 0 && seen <= 3 * databases, `${seen} of ${databases * snapshotsOfEach}`)
})

test.serial('the sweep of snapshots reads only those that it deletes', async t => {
  const { db } = await database
  const old = await db('snapshots')
    .where(where => where.where({ state: 'good' }).whereRaw(`created_at < now() - interval '30 days'`))
    .orWhere(where => where.where({ state: 'failed' }).whereRaw(`created_at < now() - interval '1 day'`))
  t.is(old.length, applications + 2)
  const seen = await snapshotsLookedAt(db, trx => sweepSnapshots(trx, snapshotRetention))
  t.true(seen > 0 && seen <= 2 * old.length, `${seen} of ${applications * snapshotsOfEach}`)
})
