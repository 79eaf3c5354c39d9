import { Client, Connection } from '@temporalio/client'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import { recordActivities } from '../../../activities/records.ts'
import { undoOperation } from '../../../db/acceptance.ts'
import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { forgetHost, listUnsettledTargets, readHostLosses } from '../../../db/hosts/host-forgetting.ts'
import { acquireHostLease, findHostLease } from '../../../db/hosts/host-leases.ts'
import { recordHostLeft } from '../../../db/hosts/hosts.ts'
import * as segments from '../../../db/objects/segments.ts'
import {
  enqueueDeletion,
  enqueueOperation,
  findOperation,
  type OperationKind,
} from '../../../db/operations/operations.ts'
import { queueRestore } from '../../../db/snapshots/restores.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { newId, newVersionId } from '../../../policy/ids.ts'
import { relay } from '../../../policy/installation/relay.ts'
import { settleForgotten } from '../../../workers/loops/forgotten-hosts.ts'
import { laneOf } from '../../../workers/loops/waking.ts'
import { laneRun, temporalLanes } from '../../../workers/temporal/lanes.ts'
import { configFile, plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const database = testDatabase()
const temporal = testTemporal()
const log = pino({ level: 'silent' })

const clientOf = async () => new Client({ connection: await Connection.connect({ address: (await temporal).address }) })
const holder = { machine: 'm', pid: 1, startTicks: '1', hostname: 'far' }

let names = 0

/** A silent host with an application that serves, whose snapshot is good, and what else is wanted. */
async function lostHost() {
  const { db } = await database
  const make = rows(db)
  const hostId = `lost-${++names}`
  await db('hosts').update({ draining: true })
  await make.host(hostId)
  const user = await make.user()
  const served = async () => {
    const { app, operationId } = await make.app(user.id)
    await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
    const running = { status: 'running', host_port: 4000 + ++names, container_id: 'c', started_at: new Date() }
    await db('apps')
      .where({ id: app.id })
      .update({ ...running, release: 1, provisioned_at: new Date() })
    return app
  }
  const app = await served()
  const ask = (kind: OperationKind, appId = app.id) =>
    enqueueOperation(db, { targetId: appId, kind, ownerId: user.id, actor: user.id })
  const silent = () => recordHostLeft(db, hostId)
  const forget = () => db.transaction(trx => forgetHost(trx, hostId))
  return { db, make, hostId, user, app, served, ask, silent, forget }
}

async function goodSnapshot(db: Db, { id, owner_id }: { id: string; owner_id: string }) {
  const taken = await enqueueOperation(db, { targetId: id, kind: 'snapshot', ownerId: owner_id, actor: owner_id })
  await db('operations').where({ id: taken.id }).update({ state: 'success', finished_at: new Date() })
  const segmentId = await segments.allocateSegment(db)
  await db.transaction(trx => segments.attachSegment(trx, segmentId, { size: 1, sha256: 'a'.repeat(64) }))
  const [snapshot] = await db('snapshots')
    .insert({
      ...{ id: newVersionId(), target_id: id, owner_id, name: `${id}_javascript_manual`, origin: 'manual' },
      ...{ operation_id: taken.id, state: 'good', segment_id: segmentId, size: 1, digest: 'd'.repeat(64) },
      config: JSON.stringify(configFile()),
    })
    .returning('*')
  return snapshot
}

const place = { plans: plansOfMemory(4096), diskMbPer256Mb: 10 }

test.serial('a host that answers, or whose process holds its lease, is not forgotten', async t => {
  const { db, hostId, silent, forget } = await lostHost()
  await t.throwsAsync(forget(), { name: 'ForgetRefused', message: /answers/ })
  await silent()
  await acquireHostLease(db, { hostId, token: 'alive' }, holder, 3600)
  await t.throwsAsync(forget(), { name: 'ForgetRefused', message: /still holds the name/ })
  t.is((await db('hosts').where({ id: hostId }).first()).forgotten_at, null)
  t.is((await findHostLease(db, hostId))?.token, 'alive')
  await db('host_leases')
    .where({ host_id: hostId })
    .update({ held_until: new Date(0) })
  await forget()
  await forget()
  t.false(await acquireHostLease(db, { hostId, token: 'back' }, holder, 10), 'nobody has the name any more')
  await t.throwsAsync(
    db.transaction(trx => forgetHost(trx, 'nowhere')),
    { message: /no host "nowhere"/ },
  )
})

test.serial('the memory of its applications is free in the plan immediately, and on every host', async t => {
  const { db, hostId, user, served, ask, silent, forget } = await lostHost()
  const other = await served()
  await ask('restart', other.id)
  t.deepEqual(await readHostLosses(db, hostId), {
    ...{ apps: 2, restorable: 0, databases: 0, memoryMb: 1024, operations: 1 },
  })
  t.is(await usedMemoryMb(db, user.id), 1024)
  await silent()
  await forget()
  t.is(await usedMemoryMb(db, user.id), 0)
})

/** Everything about an application that users and lanes can see. */
async function reported(db: Db, appId: string, ids: string[]) {
  const app = await loadApp(db, appId)
  const ended = await Promise.all(ids.map(id => findOperation(db, id)))
  const client = await clientOf()
  return {
    app: app && { status: app.status, lost: app.lost_with !== null, port: app.host_port, desired: app.desired_state },
    operations: ended.map(row => [row?.state, row?.code]),
    lane: (await laneRun(client, appId))?.status,
    deployments: (await db('deployments').where({ app_id: appId }).orderBy('release')).map(row => row.code),
    snapshots: await db('snapshots').where({ target_id: appId }).pluck('state'),
  }
}

const ended = ['error', 'CLUSTER_UNAVAILABLE']

/** A lane that waits for its host forever: no worker polls its queue. */
async function waitingLane(appId: string) {
  const { queuePrefix } = await temporal
  await temporalLanes(await clientOf(), { queuePrefix }).wake(appId, 'nobody')
}

/** An application of a forgotten host with every kind of operation in progress. */
async function underWay() {
  const kit = await lostHost()
  const { db, app, ask, make, user, silent, forget } = kit
  const deploy = await ask('deploy')
  const deployment = { id: newId(), operation_id: deploy.id, app_id: app.id, owner_id: user.id, release: 2 }
  await db('deployments').insert({ ...deployment, source: 'git', revision: 'f'.repeat(40), path: '' })
  const snapshot = await ask('snapshot')
  const making = { id: newVersionId(), target_id: app.id, owner_id: user.id, operation_id: snapshot.id }
  await db('snapshots').insert({ ...making, name: 'n', origin: 'manual' })
  await db('operations').whereIn('id', [deploy.id, snapshot.id]).update({ state: 'running', started_at: new Date() })
  const deletion = await enqueueDeletion(db, {
    targetId: app.id,
    kind: 'delete',
    ownerId: app.owner_id,
    actor: app.owner_id,
  })
  const creation = await make.app(user.id)
  await waitingLane(app.id)
  await silent()
  await forget()
  const check = async (t: ExecutionContext) => {
    t.deepEqual(await reported(db, app.id, [deploy.id, snapshot.id, deletion.id]), {
      app: { status: 'exited', lost: true, port: null, desired: 'running' },
      operations: [ended, ended, ended],
      lane: 'TERMINATED',
      deployments: [null, 'CLUSTER_UNAVAILABLE'],
      snapshots: ['failed'],
    })
    const created = await reported(db, creation.app.id, [creation.operationId])
    t.deepEqual([created.app, created.operations, created.deployments], [undefined, [ended], ['CLUSTER_UNAVAILABLE']])
    t.regex((await findOperation(db, creation.operationId))?.message ?? '', /Upload it again/)
    t.deepEqual(await listUnsettledTargets(db, { limit: 9 }), [])
  }
  return { ...kit, check }
}

test.serial(
  'operations that wait for a forgotten host end, lanes too, and a creation leaves only its reason',
  async t => {
    const { db, check } = await underWay()
    await settleForgotten({ db, client: await clientOf(), log })
    await check(t)
    t.is(await settleForgotten({ db, client: await clientOf(), log }), 0, 'once')
  },
)

/** The n-th effect of a worker is the last one, and its answer is lost. */
function dyingAt(n: number, db: Db, client: Client) {
  let effects = 0
  const effect = async <T>(work: () => Promise<T>): Promise<T> => {
    if (effects >= n) throw new Error('it is dead')
    const value = await work()
    if (++effects === n) throw new Error('it dies')
    return value
  }
  const dyingDb = new Proxy(db, {
    get: (target, name) =>
      name === 'transaction'
        ? (work: never) => effect(() => target.transaction(work))
        : Reflect.get(target, name, target),
    apply: (target, self, args) => Reflect.apply(target, self, args),
  })
  const handle = (id: string) => ({
    terminate: (why: string) => effect(() => client.workflow.getHandle(id).terminate(why)),
  })
  const workflow = { getHandle: handle }
  const dyingClient = { workflow, withDeadline: (_: number, work: () => Promise<unknown>) => work() }
  return { db: dyingDb, client: dyingClient as unknown as Client, log }
}

for (const n of [1, 2, 3, 4, 5])
  test.serial(`a worker that dies after effect ${n} of settling is replaced by one with the same result`, async t => {
    const { db, check } = await underWay()
    await settleForgotten(dyingAt(n, db, await clientOf()))
    await settleForgotten({ db, client: await clientOf(), log })
    await check(t)
  })

test.serial('a target that cannot be settled delays no others, and is tried again', async t => {
  const { db, app, served, silent, forget } = await lostHost()
  while ((await settleForgotten({ db, client: await clientOf(), log })) > 0);
  const all = [app, await served(), await served(), await served(), await served()]
  await silent()
  await forget()
  // Those that come first, in whatever order Postgres gives them.
  const stuck = new Set((await listUnsettledTargets(db, { limit: 100 })).slice(0, 3).map(laneOf))
  const attempts: string[] = []
  const client = await clientOf()
  const failing = {
    workflow: {
      getHandle: (id: string) => ({
        async terminate(why: string) {
          attempts.push(id)
          if (stuck.has(id)) throw new Error('it always fails')
          await client.workflow.getHandle(id).terminate(why)
        },
      }),
    },
    withDeadline: (_: number, work: () => Promise<unknown>) => work(),
  } as unknown as Client
  let seconds = 0
  const backoff = new Backoff({ ...relay.backoff, now: () => seconds * 1000 })
  const round = () => settleForgotten({ db, client: failing, log }, backoff)
  t.is(await round(), 0, 'three failures in a row end a round')
  t.is(await round(), 2, 'and the next one begins with the others')
  t.is(attempts.length, 5)
  t.is(await round(), 0)
  t.is(attempts.length, 5, 'not before their delay')
  seconds = 3
  await round()
  t.is(attempts.length, 8)
  stuck.clear()
  seconds = 9
  t.is(await round(), 3)
  t.is(
    (
      await db('apps')
        .whereIn(
          'id',
          all.map(({ id }) => id),
        )
        .whereNotNull('lost_with')
    ).length,
    5,
  )
})

/** The records as a lane has them. */
const lane = (db: Db) =>
  recordActivities({
    db,
    plans: defaultPlans,
    appsDomain: 'x.test',
    diskMbPer256Mb: 10,
    claim: () => ({ run: 'r', step: 1 }),
  })

test.serial('a lost application can be deleted without its host; other commands fail with what to do', async t => {
  const { db, app, ask, silent, forget } = await lostHost()
  await silent()
  await forget()
  const early = await ask('start')
  t.is(await lane(db).claimNext(app.id, { underWay: [] }), null)
  t.like(await findOperation(db, early.id), { state: 'error', code: 'CLUSTER_UNAVAILABLE' }, 'before it is settled too')
  await settleForgotten({ db, client: await clientOf(), log })
  const [start, snapshot] = [await ask('start'), await ask('snapshot')]
  t.is(await lane(db).claimNext(app.id, { underWay: [] }), null)
  for (const { id } of [start, snapshot]) {
    const row = await findOperation(db, id)
    t.like(row, { state: 'error', code: 'CLUSTER_UNAVAILABLE' })
    t.regex(row?.message ?? '', /permanently lost.+Restore one of its snapshots.+or delete it/)
  }
  const deletion = await enqueueDeletion(db, {
    targetId: app.id,
    kind: 'delete',
    ownerId: app.owner_id,
    actor: app.owner_id,
  })
  t.is(await lane(db).claimNext(app.id, { underWay: [] }), null)
  t.like(await findOperation(db, deletion.id), { state: 'success' })
  t.is(await loadApp(db, app.id), undefined)
})

test.serial('a restore of a lost application gets memory and a host, or fails with a code', async t => {
  const { db, make, hostId, user, app, silent, forget } = await lostHost()
  const snapshot = await goodSnapshot(db, app)
  const request = { appId: app.id, actor: user.id, name: snapshot.name, version: snapshot.id, place }
  await silent()
  await forget()
  await t.throwsAsync(queueRestore(db, request), { code: 'CLUSTER_UNAVAILABLE' }, 'until all has ended')
  await settleForgotten({ db, client: await clientOf(), log })
  await t.throwsAsync(queueRestore(db, request), { code: 'CLUSTER_MAINTENANCE_TRY_LATER' }, 'no other host')
  const next = `next-${names}`
  await make.host(next, { memoryMb: 256 })
  await t.throwsAsync(queueRestore(db, request), { code: 'CLUSTER_SELECTION_FAILED' })
  await make.host(next, { memoryMb: 8192 })
  const small = { ...place, plans: plansOfMemory(256) }
  await t.throwsAsync(queueRestore(db, { ...request, place: small }), { code: 'INSUFFICIENT_MEMORY' })
  t.is((await loadApp(db, app.id))?.host_id, hostId)

  const unconfirmed = await queueRestore(db, { ...request, accepting: true })
  t.like(await loadApp(db, app.id), { host_id: next, lost_with: hostId })
  t.is(await usedMemoryMb(db, user.id), 512)
  t.true(await undoOperation(db, unconfirmed.id))
  t.like(await loadApp(db, app.id), { host_id: hostId, lost_with: hostId }, 'as if it had never been asked for')

  const { id } = await queueRestore(db, request)
  const operation = await lane(db).claimNext(app.id, { underWay: [] })
  t.like(operation, { id, kind: 'restore' })
  t.like(operation?.release, { hostId: next, uid: app.uid })
  await lane(db).deployFailed(operation!, { code: 'SNAPSHOT_CORRUPT', message: 'no' })
  t.like(await loadApp(db, app.id), { host_id: next, lost_with: hostId }, 'still lost, and its place is kept')

  await queueRestore(db, request)
  const again = await lane(db).claimNext(app.id, { underWay: [] })
  const started = { containerId: 'c', hostPort: 4999, startedAt: new Date().toISOString(), bootId: 'b' }
  await lane(db).releaseServes(again!, { ...started, variablesVersion: 0 })
  t.like(await loadApp(db, app.id), { host_id: next, lost_with: null, status: 'running' })

  await recordHostLeft(db, next)
  await db.transaction(trx => forgetHost(trx, next))
  await settleForgotten({ db, client: await clientOf(), log })
  t.like(await loadApp(db, app.id), { lost_with: next, status: 'exited' }, 'it can be lost once more')
})
