import { randomBytes } from 'node:crypto'
import test from 'ava'
import { createKey } from '../../db/accounts/accounts.ts'
import { sweepDeploymentLogs } from '../../db/deploys/history-retention.ts'
import { OldDeployments } from '../../db/deploys/old-deployments.ts'
import { deleteExpired } from '../../db/expired-rows.ts'
import { type Chore, chores, tidyRows } from '../../db/housekeeping.ts'
import { alwaysRetainedDeployments, retentionSettings, rowsAtOnce } from '../../policy/retention.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const retention = { historyDays: 180, deploymentLogDays: 30, archiveDays: 7, pointInTimeDays: 7 }
const id = () => randomBytes(16).toString('hex')

/** An application whose release 1 serves, and a way to give it deployments of a certain age. */
async function application() {
  const { db } = await database
  const make = rows(db)
  await make.host('h')
  const user = await make.user()
  const { app, deploymentId, operationId } = await make.app(user.id)
  const deploy = async (release: number, days: number, state = 'success') => {
    const operation = id()
    const at = new Date(Date.now() - days * 86_400_000)
    const finished = state === 'running' ? null : at
    await db('operations').insert({
      ...{ id: operation, target_id: app.id, kind: 'deploy', owner_id: user.id, actor: user.id, state },
      ...{ created_at: at, finished_at: finished },
    })
    const segment = id()
    await db('segments').insert({ id: segment, state: 'stored', refs: 1, size: 10 })
    const deployment = id()
    await db('deployments').insert({
      ...{ id: deployment, app_id: app.id, operation_id: operation, release, source: 'upload', revision: 'a' },
      ...{ segment_id: segment, state: state === 'running' ? 'commit' : 'success', created_at: at },
    })
    await db('deployment_logs').insert({ deployment_id: deployment, seq: 1, text: 'built' })
    await db('deployment_events').insert({ deployment_id: deployment, state: 'pending' })
    return { operation, deployment, segment }
  }
  return { db, app, user, deploymentId, operationId, deploy }
}

const tidy = async (all: Chore[] = chores(retention)) => {
  const failed: string[] = []
  await tidyRows((await database).db, all, (chore, error) => failed.push(`${chore}: ${error}`))
  return failed
}

test.serial('history is deleted by age: first archives, then logs, then deployments with their operations', async t => {
  const { db, app, deploy } = await application()
  const newest = 2 + alwaysRetainedDeployments
  await db('apps')
    .where({ id: app.id })
    .update({ release: 1, next_release: newest + 1 })
  const ages = [200, 31, 8, 6]
  const [deleted, noLog, noArchive, whole] = await Promise.all(ages.map(days => deploy(2, days)))
  const top = await deploy(newest, 200)
  t.deepEqual(await tidy(), [])
  const kept = await db('deployments').where({ app_id: app.id }).whereNotNull('segment_id').pluck('id')
  t.true([whole!, top].every(({ deployment }) => kept.includes(deployment)))
  t.false([noLog!, noArchive!].some(({ deployment }) => kept.includes(deployment)))
  t.is((await db('segments').where({ id: noArchive!.segment }).first()).refs, 0, 'the sweep of bodies removes it')
  t.is((await db('segments').where({ id: whole!.segment }).first()).refs, 1)
  const logs = await db('deployment_logs').pluck('deployment_id')
  t.true([noArchive!, whole!, top].every(({ deployment }) => logs.includes(deployment)))
  t.false(logs.includes(noLog!.deployment))
  t.is(await db('deployments').where({ id: deleted!.deployment }).first(), undefined)
  t.is(await db('operations').where({ id: deleted!.operation }).first(), undefined)
  t.truthy(await db('operations').where({ id: noLog!.operation }).first())
})

test.serial('rows that run, serve or are referred to stay, regardless of age', async t => {
  const { db, app, deploy } = await application()
  await db('apps').where({ id: app.id }).update({ release: 3, next_release: 500 })
  const running = await deploy(2, 900, 'running')
  const serving = await deploy(3, 900)
  const old = await deploy(4, 900)
  const successor = await deploy(480, 900)
  await db('deployments').where({ id: successor.deployment }).update({ superseded_by: old.deployment })
  await db('operations').where({ id: successor.operation }).update({ retry_of: old.operation })
  await db('operation_acts').insert({ operation_id: old.operation, actor: 'operator:ana', act: 'retry' })
  t.deepEqual(await tidy(), [])
  const left = await db('deployments').where({ app_id: app.id }).pluck('id')
  for (const { deployment } of [running, serving, successor]) t.true(left.includes(deployment))
  t.false(left.includes(old.deployment))
  t.is((await db('deployments').where({ id: successor.deployment }).first()).superseded_by, null)
  t.is((await db('operations').where({ id: successor.operation }).first()).retry_of, null)
})

test.serial('a backlog is deleted in batches, and a failing chore does not stop the others', async t => {
  const { db, user } = await application()
  await db.raw(
    `insert into sessions (id, user_id, expires_at) select 's' || n, ?, now() - interval '2 days' from generate_series(1, ?) n`,
    [user.id, rowsAtOnce * 2 + 1],
  )
  const batches: number[] = []
  const failed = await tidy([
    { name: 'broken', sweep: trx => trx.raw('select 1/0') },
    {
      name: 'sessions',
      sweep: async trx => {
        const deleted = await deleteExpired(trx, { table: 'sessions', when: `old.expires_at < now()` })
        batches.push(deleted)
        return deleted
      },
    },
  ])
  t.deepEqual(batches, [rowsAtOnce, rowsAtOnce, 1, 0])
  t.is(failed.length, 1)
  t.regex(failed[0]!, /^broken: .*division by zero/s)
})

test.serial('a chore that another process runs is skipped', async t => {
  const { db } = await database
  let asked = 0
  const chore = { name: 'ours', sweep: async () => (asked++ === 0 ? 1 : 0) }
  await db.transaction(async trx => {
    await trx.raw(`select pg_advisory_xact_lock(hashtext('berth.sweep.ours'))`)
    await tidy([chore])
  })
  t.is(asked, 0)
  await tidy([chore])
  t.is(asked, 2, 'until there is no more')
})

test.serial('every chore finds its rows by an index, except in small tables', async t => {
  const { db } = await database
  const small = ['slot leases', 'live streams', 'rate limits', 'captchas', 'blob receipts', 'proxies']
  for (const { name, sweep } of chores(retention)) {
    if (small.includes(name)) continue
    const plans: string[] = []
    await db.transaction(async trx => {
      await trx.raw('set local enable_seqscan = off')
      const explain = async (sql: string, values: Record<string, number>) => {
        const result = await trx.raw(`explain ${sql}`, values)
        plans.push(result.rows.map((row: Record<string, string>) => row['QUERY PLAN']).join('\n'))
        return { rowCount: 0, rows: [] }
      }
      const explained: typeof trx = new Proxy(trx, {
        get(target, key) {
          if (key === 'raw') return explain
          if (key === 'transaction') return (work: (trx: typeof explained) => unknown) => work(explained)
          return Reflect.get(target, key)
        },
      })
      await sweep(explained)
    })
    t.true(plans.length > 0, name)
    t.false(
      plans.some(plan => /Seq Scan on \w+ (old|d|s)\b/.test(plan)),
      `${name}\n${plans.join('\n')}`,
    )
  }
})

test.serial('keys are deleted 90 days after they ended', async t => {
  const { db } = await database
  const user = await rows(db).user()
  const ago = (days: number) => db.raw(`now() - interval '${days} days'`)
  const ends: Record<string, object> = {
    'revoked long ago': { revoked_at: ago(91) },
    'revoked long ago, valid for long': { revoked_at: ago(91), expires_at: ago(-900) },
    'expired long ago': { expires_at: ago(91) },
    'expired long ago, revoked later': { expires_at: ago(91), revoked_at: ago(1) },
    'revoked since': { revoked_at: ago(89) },
    'expired since': { expires_at: ago(89) },
    'still valid': { expires_at: null },
  }
  for (const [name, end] of Object.entries(ends)) {
    const { id } = await createKey(db, 'x'.repeat(32), { userId: user.id, name })
    await db('api_keys').where({ id }).update(end)
  }
  t.deepEqual(await tidy(), [])
  const left = await db('api_keys').where({ user_id: user.id }).orderBy('name').pluck('name')
  t.deepEqual(left, ['expired since', 'revoked since', 'still valid'])
})

test.serial('the settings are days, and say so', t => {
  t.deepEqual(retentionSettings({}), retention)
  t.throws(() => retentionSettings({ ARCHIVE_DAYS: '0' }), { message: /ARCHIVE_DAYS .* whole number of days from 1/ })
})

test.serial(
  'old deployments are walked in ranges, whether they stay or not, and then from the start again',
  async t => {
    await (await database).db('deployments').delete()
    const { db, app, deploy } = await application()
    await db('apps')
      .where({ id: app.id })
      .update({ release: 3, next_release: 4 + alwaysRetainedDeployments })
    const [first, , third, last] = [await deploy(1, 100), await deploy(5, 90), await deploy(3, 80), await deploy(2, 70)]
    const logs = () =>
      db('deployment_logs')
        .whereIn(
          'deployment_id',
          [first, third, last].map(one => one.deployment),
        )
        .pluck('deployment_id')
    const old = new OldDeployments(30, { atOnce: 2 })
    t.is(await sweepDeploymentLogs(db, old), 1, 'the first of the first two')
    t.is(await sweepDeploymentLogs(db, old), 0, 'no more of them: it goes on behind them')
    t.is(await sweepDeploymentLogs(db, old), 1, 'not the one that serves')
    t.deepEqual(await logs(), [third.deployment])
    t.is(await sweepDeploymentLogs(db, old), 0)
    t.is(await sweepDeploymentLogs(db, old), 0, 'the end: it starts over')
    const late = await deploy(1, 110)
    t.is(await sweepDeploymentLogs(db, old), 1)
    t.false((await db('deployment_logs').pluck('deployment_id')).includes(late.deployment))
  },
)
