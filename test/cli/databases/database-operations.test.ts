import test, { type ExecutionContext } from 'ava'
import { opsCommand } from '../../../cli/ops.ts'
import { removeDatabase } from '../../../db/databases/database-creation.ts'
import * as operations from '../../../db/operations/operations.ts'
import { holdSnapshotSlot } from '../../../db/snapshots/snapshot-slots.ts'
import { snapshotSlotWait } from '../../../policy/hosts/host-slots.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

async function scene(t: ExecutionContext) {
  const { db, url } = await database
  const make = rows(db)
  await make.databaseHost('h1')
  await db('hosts').update({ last_seen_at: '2100-01-01' }) // it answers however long this takes
  const ana = await make.user()
  const { database: row, operationId: creation } = await make.database(ana.id)
  const target = { type: 'database', id: row.id } as const
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const ops = (...args: string[]) => operatorHere([opsCommand], settings, 'ops', ...args)
  const queue = async (kind: 'start' | 'rotate' | 'resize' | 'delete' | 'stop' | 'certify') =>
    (
      await operations.enqueueOperation(db, {
        ...{ targetType: 'database', targetId: row.id, ownerId: ana.id, actor: ana.id, kind },
      })
    ).id
  const fail = async (id: string) => {
    await operations.claimNextOperation(db, target)
    await operations.finishOperation(db, id, { state: 'error', code: 'ACTION_FAILED', message: 'It ended.' })
  }
  return { db, make, ana, row, creation, target, ops, queue, fail }
}

test.serial('operations of databases are listed as such, alone if requested', async t => {
  const { make, ana, row, creation, ops } = await scene(t)
  const { app, operationId } = await make.app(ana.id)
  const { stdout } = await ops('list')
  t.regex(stdout, new RegExp(`^${operationId.slice(0, 8)} +shop ${app.id.slice(0, 8)} +create `, 'm'))
  t.regex(stdout, new RegExp(`^${creation.slice(0, 8)} +database orders ${row.id.slice(0, 8)} +create `, 'm'))
  const [line, ...others] = JSON.parse((await ops('list', '--database', row.id, '--json')).stdout)
  t.deepEqual(others, [])
  t.like(line, { id: creation, app_id: null, app_name: null, database_id: row.id, database_name: 'orders' })
  const [own] = JSON.parse((await ops('list', '--app', app.id, '--json')).stdout)
  t.like(own, { app_id: app.id, app_name: 'shop', database_id: null, database_name: null })
  t.deepEqual(JSON.parse((await ops('list', '--app', row.id, '--json')).stdout), [])
  t.regex((await ops('list', '--app', app.id, '--database', row.id)).stderr, /not both/)
})

test.serial('an operation of a database is explained with its database and its lane', async t => {
  const { row, creation, ops, queue } = await scene(t)
  const id = await queue('rotate')
  const { stdout } = await ops('explain', id)
  t.regex(stdout, /^rotate of database orders\n {2}WAITING/)
  t.regex(stdout, /It is number 2 in the queue of its database\.\n {2}Before it: \w{8} create, queued/)
  t.regex(stdout, new RegExp(`database +orders \\(${row.id}\\)\n +host +h1`))
  t.regex(stdout, new RegExp(`lane +database/${row.id}, unknown`))
  t.notRegex(stdout, /application/)
  const story = JSON.parse((await ops('explain', creation, '--json')).stdout)
  t.is(story.lane.workflow_id, `database/${row.id}`)
  t.is(story.app, null)
  t.like(story.database, { id: row.id, name: 'orders' })
  t.like(story.operation, { app_id: null, database_id: row.id })
})

test.serial(
  'a failure of a database is explained with what is true now; only starts and stops are retried',
  async t => {
    const { db, creation, row, target, ops, queue, fail } = await scene(t)
    await operations.claimNextOperation(db, target)
    await operations.finishOperation(db, creation, { state: 'success' })
    for (const [kind, words] of [
      ['resize', /nothing; the database has its earlier memory/],
      ['rotate', /nothing; the earlier password is valid/],
      ['certify', /nothing; its owner can reset the certificate again/],
      ['stop', /nothing; to retry it: berth ops retry/],
      ['start', /nothing; to retry it: berth ops retry/],
    ] as const) {
      const id = await queue(kind)
      await fail(id)
      const { stdout } = await ops('explain', id)
      t.regex(stdout, words)
      t.regex(stdout, /FAILED .*: ACTION_FAILED: It ended\./)
      t.regex(stdout, new RegExp(`how the database is now: berth databases explain ${row.id.slice(0, 8)}`))
      if (kind === 'rotate') t.regex(stdout, /Last failure of this database:\n {2}\w{8} resize, error/)
      const retried = await ops('retry', id, '--json')
      if (!['stop', 'start'].includes(kind)) t.regex(retried.stderr, new RegExp(`A ${kind} cannot be retried`))
      else {
        const again = await operations.findOperation(db, JSON.parse(retried.stdout).operation)
        t.like(again, { kind, target_type: 'database', target_id: row.id, state: 'queued' })
        await fail(again!.id)
      }
    }
  },
)

test.serial(
  'an operation that waits for a snapshot slot is explained with what has the slots, and since when',
  async t => {
    const { db, make, ana, row, ops, creation, target } = await scene(t)
    await operations.claimNextOperation(db, target)
    await operations.finishOperation(db, creation, { state: 'success' })
    const snapshotOf = async (ownerId: string, id: string, hostId = 'h1') => {
      const of = { targetType: 'database', targetId: id, ownerId, actor: ownerId, kind: 'snapshot' } as const
      const operation = await operations.enqueueOperation(db, of)
      await db('operations').where({ id: operation.id }).update({ state: 'running' })
      await operations.recordStep(
        db,
        operation.id,
        `${snapshotSlotWait}, which takes one snapshot of an account at a time`,
      )
      return { id: operation.id, holds: () => holdSnapshotSlot(db, hostId, operation.id) }
    }
    const waits = await snapshotOf(ana.id, row.id)
    const words = async () => (await ops('explain', waits.id)).stdout
    t.regex(await words(), /A snapshot slot of its host is free/)

    const ben = await make.user()
    const other = await snapshotOf(ben.id, (await make.database(ben.id)).database.id)
    await other.holds()
    await db('blob_leases').update({ since: new Date(Date.now() - 3 * 3_600_000) })
    const third = await snapshotOf(ana.id, (await make.database(ana.id)).database.id)
    await third.holds()
    const slots = new RegExp(
      `Its account already has a snapshot slot of its host.*\\n +` +
        `snapshot slot 1 of host h1 for 3 h: ${other.id.slice(0, 8)} snapshot of database orders, account ${ben.email}\\n +` +
        `snapshot slot 2 of host h1 for \\d s: ${third.id.slice(0, 8)} snapshot of database orders, account ${ana.email}`,
    )
    t.regex(await words(), slots)
    const [slot] = JSON.parse((await ops('explain', waits.id, '--json')).stdout).snapshot_slots
    t.like(slot, { place: 1, host_id: 'h1', operation_id: other.id, owner_id: ben.id, target_type: 'database' })
    t.regex((await ops('explain', third.id)).stdout, /It has snapshot slot 2 of host h1/)
  },
)

test.serial('operations of deleted databases say so', async t => {
  const { db, row, creation, target, ops } = await scene(t)
  await operations.claimNextOperation(db, target)
  await operations.finishOperation(db, creation, { state: 'error', code: 'CLUSTER_UNAVAILABLE', message: 'Silent.' })
  await removeDatabase(db, row.id)
  t.regex((await ops('list', '--database', row.id)).stdout, new RegExp(`database \\(deleted\\) ${row.id.slice(0, 8)}`))
  const { stdout } = await ops('explain', creation)
  t.regex(stdout, /nothing; what it had created was removed/)
  t.regex(stdout, new RegExp(`database +deleted \\(${row.id}\\)`))
})
