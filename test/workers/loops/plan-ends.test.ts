import assert from 'node:assert/strict'
import test from 'ava'
import { pino } from 'pino'
import { recordDesiredState } from '../../../db/apps/apps.ts'
import { recordDatabaseDesired } from '../../../db/databases/databases.ts'
import { finishOperation } from '../../../db/operations/operations.ts'
import { type Plan, type Plans, defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { planEndsOnce } from '../../../workers/loops/plan-ends.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
/** As before the end of a plan: each includes databases. */
const plansBefore = new Map([...plansOfMemory(4096)].map(([name, plan]) => [name, { ...plan, workspaces: 1 }]))
const log = pino({ level: 'silent' })
const daySeconds = 86_400

test.beforeEach(async () => {
  const { db } = await database
  await db.raw('truncate users, hosts, apps, databases, operations, deployments, segments, mails cascade')
  await rows(db).databaseHost('h1', { memoryMb: 65_536 })
})

/** An account whose plan ends in so many seconds. */
async function account(endsInSeconds: number | null, plan = 'standard-4') {
  const { db } = await database
  const user = await rows(db).user(plan)
  const endsIn = async (seconds: number | null) => {
    const endsAt = seconds === null ? null : db.raw('now() + make_interval(secs => ?)', [seconds])
    await db('users').where({ id: user.id }).update({ plan_ends_at: endsAt })
  }
  await endsIn(endsInSeconds)
  return {
    ...user,
    endsIn,
    mails: async () => (await db('mails').where({ user_id: user.id }).orderBy('created_at')).map(row => row.template),
    /** An application whose creation is over; wanted to run. */
    app: async () => {
      const { app, operationId } = await rows(db).app(user.id)
      await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
      return app.id
    },
    database: async () => {
      const { database: made, operationId } = await rows(db).database(user.id, { plans: plansBefore })
      await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
      return made.id
    },
  }
}

async function round(more: { notices?: number[]; retrySeconds?: number; plans?: Plans } = {}): Promise<string[]> {
  const { db } = await database
  const woken: Record<'lanes' | 'databaseLanes', string[]> = { lanes: [], databaseLanes: [] }
  const lanes = { wake: async (id: string) => void woken.lanes.push(id) }
  const databaseLanes = { wake: async (id: string) => void woken.databaseLanes.push(id) }
  const stopped = await planEndsOnce({ db, plans, log, lanes, databaseLanes, ...more })
  const ids = (wanted: string) => stopped.flatMap(({ type, id }) => (type === wanted ? [id] : []))
  assert.deepEqual(woken, { lanes: ids('app'), databaseLanes: ids('database') })
  return stopped.map(({ id }) => id).sort()
}

const stops = async (id: string) => (await database).db('operations').where({ target_id: id, kind: 'stop' })

test.serial('a week before the end of its plan an account is notified, once, and not earlier', async t => {
  const ana = await account(8 * daySeconds)
  await round()
  t.deepEqual(await ana.mails(), [])
  await ana.endsIn(7 * daySeconds - 10)
  for (let n = 0; n < 3; n++) await round()
  t.deepEqual(await ana.mails(), ['plan-ending'])
  const { db } = await database
  const { plan_ends_at: endsAt } = await db('users').where({ id: ana.id }).first()
  t.like(await db('mails').where({ user_id: ana.id }).first(), {
    fields: { plan: 'standard-4', endsAt: endsAt.toISOString().slice(0, 16).replace('T', ' ') },
  })
})

test.serial('the notices of one end are sent in order, then the end itself; another end has its own', async t => {
  const ana = await account(100)
  await round({ notices: [200, 50] })
  t.deepEqual(await ana.mails(), ['plan-ending'])
  // The clock cannot be moved on, so the notice is moved to it.
  await round({ notices: [200, 150] })
  await round({ notices: [200, 150] })
  t.deepEqual(await ana.mails(), ['plan-ending', 'plan-ending'])
  await ana.endsIn(-100)
  for (let n = 0; n < 3; n++) await round({ notices: [200, 150] })
  t.deepEqual(await ana.mails(), ['plan-ending', 'plan-ending', 'plan-ended'])
  await ana.endsIn(120)
  await round({ notices: [200, 150] })
  t.is((await ana.mails()).length, 4, 'a new end is reported again')
})

test.serial('when both notices are overdue only one is sent', async t => {
  const ana = await account(3600)
  await round()
  await round()
  t.deepEqual(await ana.mails(), ['plan-ending'])
})

test.serial('no notice is sent without an end, without a plan, or for an end long ago', async t => {
  const users = [
    await account(null),
    await account(60, 'free'),
    await account(-10, 'free'),
    await account(-8 * daySeconds),
  ]
  await round()
  for (const user of users) t.deepEqual(await user.mails(), [])
})

test.serial('after the end every application is stopped, once; those of others keep running', async t => {
  const ana = await account(-1)
  const [one, two, idle] = [await ana.app(), await ana.app(), await ana.app()]
  const { db } = await database
  await recordDesiredState(db, idle, 'stopped')
  const bob = await account(3600)
  await bob.app()
  const eve = await account(null)
  await eve.app()
  t.deepEqual(await round({ retrySeconds: 0 }), [one, two].sort())
  t.deepEqual(await round({ retrySeconds: 0 }), [], 'while it waits')
  t.like((await stops(one))[0], { actor: 'plan-expiry', owner_id: ana.id, state: 'queued' })
  t.is((await db('apps').where({ owner_id: ana.id })).length, 3, 'nothing is deleted')
})

test.serial('a failed stop is queued again after a delay; a successful one is not', async t => {
  const { db } = await database
  const ana = await account(-1)
  const id = await ana.app()
  await round()
  const [stop] = await stops(id)
  await db('operations').where({ id: stop.id }).update({ state: 'running' })
  await finishOperation(db, stop.id, { state: 'error', code: 'ACTION_FAILED' })
  t.deepEqual(await round(), [])
  t.deepEqual(await round({ retrySeconds: 0 }), [id])
  await db('operations').where({ target_id: id }).update({ state: 'success' })
  await recordDesiredState(db, id, 'stopped')
  t.deepEqual(await round({ retrySeconds: 0 }), [])
})

test.serial('two concurrent processes queue one stop and one mail', async t => {
  const ana = await account(-1)
  const id = await ana.app()
  await Promise.all(Array.from({ length: 5 }, () => round({ retrySeconds: 0 })))
  t.is((await stops(id)).length, 1)
  t.deepEqual(await ana.mails(), ['plan-ended'])
})

test.serial('databases of an account whose plan has ended are stopped too, and stay', async t => {
  const { db } = await database
  const ana = await account(-1)
  const [id, idle, app] = [await ana.database(), await ana.database(), await ana.app()]
  await recordDatabaseDesired(db, idle, 'stopped')
  const bob = await account(3600)
  await bob.database()
  t.deepEqual(await round({ retrySeconds: 0 }), [id, app].sort())
  t.deepEqual(await round({ retrySeconds: 0 }), [], 'while they wait')
  t.like((await stops(id))[0], { target_type: 'database', actor: 'plan-expiry', owner_id: ana.id, state: 'queued' })
  t.is((await db('databases').where({ owner_id: ana.id })).length, 2)
})

test.serial('memory of databases suspends applications; databases also need a plan that includes them', async t => {
  const ana = await account(-1)
  const [app, id] = [await ana.app(), await ana.database()]
  const withFree = (changes: Partial<Plan>) =>
    new Map([...plans, ['free', { ...plans.get('free')!, ...changes }] as const])
  t.deepEqual(await round({ plans: withFree({ memoryMb: 1024, workspaces: 1 }) }), [])
  t.deepEqual(await round({ plans: withFree({ memoryMb: 1024 }) }), [id])
  t.deepEqual(await round({ plans: withFree({ memoryMb: 1023, workspaces: 1 }) }), [app])
})

test.serial('mails about the end of a plan name the databases that it stops, and no others', async t => {
  const { db } = await database
  const ana = await account(3600)
  const ids: string[] = []
  for (let n = 1; n <= 3; n++) {
    ids.push(await ana.database())
    const changes = { name: `store ${n}`, created_at: new Date(Date.now() + n * 1000) }
    await db('databases')
      .where({ id: ids.at(-1) })
      .update(changes)
  }
  await recordDatabaseDesired(db, ids[1]!, 'stopped')
  const bob = await account(3600)
  await round()
  const fields = async (userId: string, template: string) =>
    (await db('mails').where({ user_id: userId, template }).first()).fields
  t.like(await fields(ana.id, 'plan-ending'), { databases: 'store 1, store 3', databaseCount: 2 })
  t.like(await fields(bob.id, 'plan-ending'), { databases: '', databaseCount: 0 })
  for (const user of [ana, bob]) await user.endsIn(-1)
  await db('databases').where({ id: ids[2]! }).update({ lost_with: 'h2' })
  await round()
  t.deepEqual(await fields(ana.id, 'plan-ended'), { plan: 'standard-4', databases: 'store 1', databaseCount: 1 })
  t.deepEqual(await fields(bob.id, 'plan-ended'), { plan: 'standard-4', databases: '', databaseCount: 0 })
})

test.serial(
  'of many databases a mail names the first and gives the number; what a free plan allows is not named',
  async t => {
    const { db } = await database
    const [ana, bob] = [await account(3600), await account(9 * daySeconds)]
    const id = await ana.database()
    await bob.database()
    await db.raw(
      `insert into databases select copy.*
       from databases d, generate_series(1, 999) n,
            jsonb_populate_record(d, jsonb_build_object(
         'id', lpad(to_hex(n), 32, '0'), 'uid', 50000 + n, 'port', 30000 + n, 'name', 'n' || n, 'created_at', now() + n * interval '1 s')) copy
       where d.id = ?`,
      [id],
    )
    await round()
    const { fields } = await db('mails').where({ user_id: ana.id }).first()
    t.like(fields, { databases: 'orders, n1, n2, n3, n4, n5, n6, n7, n8, n9', databaseCount: 1000 })

    const free = new Map([...plans, ['free', { ...plans.get('free')!, memoryMb: 1_000_000, workspaces: 1 }] as const])
    await bob.endsIn(3600)
    await round({ plans: free })
    t.like((await db('mails').where({ user_id: bob.id }).first()).fields, { databaseCount: 0 })
  },
)
