import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import { databaseRecords } from '../../../activities/database-records.ts'
import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { findDatabase } from '../../../db/databases/databases.ts'
import { forgetHost, listUnsettledTargets, readHostLosses } from '../../../db/hosts/host-forgetting.ts'
import { recordHostLeft } from '../../../db/hosts/hosts.ts'
import * as operations from '../../../db/operations/operations.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { settleForgotten } from '../../../workers/loops/forgotten-hosts.ts'
import { temporalDatabaseLanes } from '../../../workers/temporal/lanes.ts'
import { workflowRun } from '../../../workers/temporal/workflow-runs.ts'
import { databaseLaneId } from '../../../workflows/ids.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const database = testDatabase()
const temporal = testTemporal()
const log = pino({ level: 'silent' })

const connection = temporal.then(({ address }) => Connection.connect({ address }))
const clientOf = async () => new Client({ connection: await connection })
test.after.always('close the connection', async () => (await connection).close())

let names = 0

/** A database that serves on a host that is about to be lost. */
async function lostHost() {
  const { db } = await database
  const make = rows(db)
  const hostId = `lost-${++names}`
  await db('hosts').update({ draining: true })
  await make.databaseHost(hostId)
  const user = await make.user()
  const { database: made, operationId } = await make.database(user.id)
  const { id } = made
  await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
  const running = { status: 'running', container_id: 'c', started_at: new Date(), provisioned_at: new Date() }
  await db('databases').where({ id }).update(running)
  const ask = async (kind: operations.DatabaseOperationKind) => {
    const asked = { targetType: 'database', targetId: id, kind, ownerId: user.id, actor: user.id } as const
    return (await (kind === 'delete' ? operations.enqueueDeletion : operations.enqueueOperation)(db, asked)).id
  }
  const forget = async () => {
    await recordHostLeft(db, hostId)
    await db.transaction(trx => forgetHost(trx, hostId))
  }
  const lane = databaseRecords({
    db,
    plans,
    ports: { from: 20_000, to: 20_009 },
    claim: () => ({ run: 'lane', step: 1 }),
  })
  const claimNext = () => lane.claimNextOfDatabase(id, { underWay: [] })
  return { db, make, hostId, user, id, ask, forget, claimNext }
}

test.serial('databases of a forgotten host are settled: operations ended, lane terminated, row kept', async t => {
  const { db, make, hostId, user, id, ask, forget } = await lostHost()
  const [resize, deletion] = [await ask('resize'), await ask('delete')]
  await db('operations').where({ id: resize }).update({ state: 'running', started_at: new Date() })
  const creation = await make.database(user.id, { ramMb: 1024 })
  const { queuePrefix } = await temporal
  await temporalDatabaseLanes(await clientOf(), { queuePrefix }).wake(id, user.id)
  t.deepEqual(await readHostLosses(db, hostId), {
    ...{ apps: 0, restorable: 0, databases: 2, memoryMb: 1536, operations: 3 },
  })
  await forget()
  t.is(await usedMemoryMb(db, user.id), 0)
  t.is((await listUnsettledTargets(db, { limit: 9, hostId })).length, 2)
  t.is(await settleForgotten({ db, client: await clientOf(), log }), 2)
  t.is(await settleForgotten({ db, client: await clientOf(), log }), 0)
  for (const operationId of [resize, deletion, creation.operationId])
    t.like(await operations.findOperation(db, operationId), { state: 'error', code: 'CLUSTER_UNAVAILABLE' })
  t.regex((await operations.findOperation(db, resize))!.message!, /permanently lost, and with it this database/)
  t.regex((await operations.findOperation(db, creation.operationId))!.message!, /before the database was created/)
  t.like(await findDatabase(db, user.id, id), {
    ...{ status: 'exited', lost_with: hostId, container_id: null, started_at: null, desired_state: 'running' },
  })
  t.is(await findDatabase(db, user.id, creation.database.id), undefined, 'it never served')
  t.is((await workflowRun(await clientOf(), databaseLaneId(id)))?.status, 'TERMINATED')
})

test.serial('a lost database can be deleted without its host; other commands fail with what to do', async t => {
  const { db, id, user, ask, forget, claimNext } = await lostHost()
  await forget()
  const early = await ask('start')
  t.is(await claimNext(), null)
  t.like(
    await operations.findOperation(db, early),
    { state: 'error', code: 'CLUSTER_UNAVAILABLE' },
    'before it settles',
  )
  await settleForgotten({ db, client: await clientOf(), log })
  const rotate = await ask('rotate')
  t.is(await claimNext(), null)
  t.regex((await operations.findOperation(db, rotate))!.message!, /Delete it/)
  const deletion = await ask('delete')
  t.is(await claimNext(), null)
  t.like(await operations.findOperation(db, deletion), { state: 'success' })
  t.is(await findDatabase(db, user.id, id), undefined)
})

test.serial('a database of a suspended account is not started, and its stop is withdrawn with a new plan', async t => {
  const { db, user, ask, claimNext } = await lostHost()
  const endsAt = (plan_ends_at: Date | null) => db('users').where({ id: user.id }).update({ plan_ends_at })
  await endsAt(new Date(0))
  const start = await ask('start')
  t.is(await claimNext(), null)
  t.like(await operations.findOperation(db, start), { state: 'error', code: 'CONTAINER_TEMPORARILY_SUSPENDED' })
  const stop = await ask('stop')
  await db('operations').where({ id: stop }).update({ actor: 'plan-expiry' })
  await endsAt(null)
  t.is(await claimNext(), null)
  t.like(await operations.findOperation(db, stop), { state: 'cancelled' })
  const again = await ask('start')
  t.is((await claimNext())?.id, again)
})
