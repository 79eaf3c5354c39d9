import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Client } from 'pg'
import { type Db, openDatabase } from '../../../db/database.ts'
import { type PushDelivery, type PushOutcome, pushes } from '../../../db/git/pushes.ts'
import { claimNextOperation } from '../../../db/operations/operations.ts'
import { acceptance } from '../../../policy/acceptance.ts'
import { pushesAtOnce } from '../../../policy/git/push-slots.ts'
import { newId } from '../../../policy/ids.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const pools: Db[] = []
test.after.always('close', () => Promise.all(pools.map(pool => pool.destroy())))
const database = testDatabase()
test.before('a host that is never out of sight', async () => {
  const { db } = await database
  await rows(db).host('big', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

/** The connections of another API process. */
async function anotherProcess(): Promise<Db> {
  const pool = openDatabase({ url: (await database).url, pool: 10 })
  pools.push(pool)
  return pool
}

/** Applications of a new account, and the connections of a process that stores no pushes of other tests. */
async function apps(count: number) {
  const db = await anotherProcess()
  const make = rows(db)
  const { id: ownerId } = await make.user()
  const made: { appId: string; ownerId: string }[] = []
  for (let n = 0; n < count; n++)
    made.push({ appId: (await make.app(ownerId, {}, { plans: plansOfMemory(100_000) })).app.id, ownerId })
  await db('operations').where({ owner_id: ownerId }).update({ state: 'success' })
  return { db, made }
}

interface Source {
  appId: string
  ownerId: string
}

function push({ appId, ownerId }: Source, branch = 'main', more: Partial<PushDelivery> = {}): PushDelivery {
  const verdict = { kind: 'push', branch, commit: newId(), cloneUrl: 'https://git.example.org/ana/shop.git' } as const
  const { commit } = verdict
  return {
    ...{ webhookId: null, appId, ownerId, limitScale: 1, restart: true, push: verdict },
    delivery: { provider: 'github', event: 'push', deliveryId: newId(), branch, commit, verdict },
    ...{ deploymentId: newId(), operationId: newId(), reply: { status: 200, aroundPlace: ['place ', ''] } },
    ...more,
  }
}

/** A connection that holds rows until its end. */
async function locker(query: string, ...values: unknown[]) {
  const { url } = await database
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query('begin')
  await client.query(query, values)
  const pid = Number((await client.query('select pg_backend_pid() as pid')).rows[0].pid)
  /** Lets go of the rows 20 ms after something waits for them: by Postgres itself, as this process may be busy for longer. */
  const letGoWhenWaitedFor = async () => {
    await client.query(`do $$ begin
      for n in 1 .. 20000 loop
        exit when exists (select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid)));
        perform pg_sleep(0.002);
      end loop;
      perform pg_sleep(0.02);
    end $$; commit`)
    await client.end()
  }
  return { client, pid, letGoWhenWaitedFor }
}

const store = (db: Db, one: PushDelivery): Promise<PushOutcome> => pushes.store(db, one, performance.now() + 60_000)
const kinds = (outcomes: PushOutcome[]) => outcomes.map(({ kind }) => kind)

/** How many transactions stored these deployments. */
async function commitsOf(db: Db, deployments: readonly PushDelivery[]): Promise<number> {
  const ids = deployments.map(({ deploymentId }) => deploymentId)
  const first = db('deployment_events').whereIn('deployment_id', ids).where({ state: 'pending' })
  return new Set(await first.select(db.raw('xmin::text')).then(found => found.map(({ xmin }) => xmin))).size
}

/** How many transactions put these operations into their queues. */
async function commitsOfConfirmed(db: Db, stored: readonly PushDelivery[]): Promise<number> {
  const ids = stored.map(({ operationId }) => operationId)
  const queued = await db('operations').whereIn('id', ids).select(db.raw('xmin::text'))
  return new Set(queued.map(({ xmin }) => xmin)).size
}

test('pushes that arrive together are stored by one commit and confirmed by one, and each is judged as if it came alone', async t => {
  const { db, made } = await apps(4)
  const [ana, deleted, limited, other] = made as [Source, Source, Source, Source]
  const earlier = push(ana, 'earlier')
  await store(db, earlier)
  t.true(await pushes.confirm(db, ana, earlier.operationId))
  const waiting = push(ana, 'main')
  await store(db, waiting)
  t.true(await pushes.confirm(db, ana, waiting.operationId))
  await db('apps').where({ id: deleted.appId }).update({ desired_state: 'deleted' })
  // Of a burst of 20, one every 15 s, one is left.
  const almostFull = db.raw(`now() + interval '${19 * 15} seconds'`)
  await db('rate_limits').insert({ key: `git.webhook/${limited.appId}`, used: 0, window_ends_at: almostFull })

  const again = { ...push(ana, 'earlier'), delivery: earlier.delivery }
  const [oldest, older, newest, dev] = [push(ana), push(ana), push(ana), push(ana, 'dev')] as const
  const copy = { ...push(ana), delivery: oldest.delivery }
  const [last, over] = [push(limited), push(limited)]
  const [gone, alone] = [push(deleted), push(other)]
  const all = [again, oldest, gone, older, copy, last, newest, over, dev, alone]
  const outcomes = await Promise.all(all.map(one => store(db, one)))
  t.deepEqual(kinds(outcomes), [
    ...(['duplicate', 'queued', 'gone', 'queued', 'duplicate'] as const),
    ...(['queued', 'queued', 'full', 'queued', 'queued'] as const),
  ])
  t.like(outcomes[0], { deploymentId: earlier.deploymentId, operationId: undefined })
  t.like(outcomes[4], { deploymentId: oldest.deploymentId, operationId: oldest.operationId })
  t.like(outcomes[7], { waitSeconds: 15 })
  const place = (n: number) => /place (\d+)/.exec((outcomes[n] as { reply: { text: string } }).reply.text)?.[1]
  t.deepEqual([place(1), place(6), place(8), place(9)], ['2', '2', '3', '1'], 'those of their branch do not count')
  const stored = [oldest, older, last, newest, dev, alone]
  t.is(await commitsOf(db, stored), 1)

  const confirmed = await Promise.all(
    [...stored, oldest].map(({ appId, ownerId, operationId }) => pushes.confirm(db, { appId, ownerId }, operationId)),
  )
  t.deepEqual(confirmed, [true, true, true, true, true, true, true], 'also what is superseded')
  const operations = await db('operations')
    .whereIn(
      'id',
      [...stored, waiting, earlier].map(({ operationId }) => operationId),
    )
    .select('id', 'state', db.raw('xmin::text'))
  const states = new Map(operations.map(({ id, state }) => [id, state]))
  const state = ({ operationId }: PushDelivery) => states.get(operationId)
  t.deepEqual([oldest, older, waiting].map(state), ['cancelled', 'cancelled', 'cancelled'])
  t.deepEqual([newest, dev, last, alone, earlier].map(state), ['queued', 'queued', 'queued', 'queued', 'queued'])
  t.is(new Set(operations.filter(({ id }) => id !== earlier.operationId).map(({ xmin }) => xmin)).size, 1)
  for (const { deploymentId } of [oldest, older, waiting]) {
    const truth = { state: 'error', code: 'DEPLOY_SUPERSEDED', superseded_by: newest.deploymentId }
    t.like(await db('deployments').where({ id: deploymentId }).first(), truth)
    t.like(await db('webhook_deliveries').where({ deployment_id: deploymentId }).first(), { verdict: 'superseded' })
    t.truthy(await db('deployment_events').where({ deployment_id: deploymentId, state: 'error' }).first())
  }
  const claimed = async () => (await claimNextOperation(db, { type: 'app', id: ana.appId }))?.id
  t.is(await claimed(), earlier.operationId)
  await db('operations').where({ id: earlier.operationId }).update({ state: 'success' })
  t.is(await claimed(), newest.operationId)
})

test('of one application 20 pushes of different branches wait; further ones of a branch that waits do not count', async t => {
  const { db, made } = await apps(1)
  const unlimited = { limitScale: 1000 }
  const twoBranches = Array.from({ length: 24 }, (_, n) => push(made[0]!, n % 2 ? 'main' : 'dev', unlimited))
  const others = Array.from({ length: 18 }, (_, n) => push(made[0]!, `b${n}`, unlimited))
  const outcomes = await Promise.all([...twoBranches, ...others].map(one => store(db, one)))
  t.deepEqual([...new Set(kinds(outcomes))], ['queued'])
  t.deepEqual(await store(db, push(made[0]!, 'one more', unlimited)), { kind: 'crowded', waiting: 20 })
  t.is((await store(db, push(made[0]!, 'main', unlimited))).kind, 'queued')
})

test('a push that Postgres refuses fails no other that is stored with it', async t => {
  const { db, made } = await apps(3)
  const good = made.map(source => push(source))
  const bad = push(made[0]!, 'bad', { operationId: 'no id' })
  const outcomes = await Promise.allSettled([good[0]!, bad, good[1]!, good[2]!].map(one => store(db, one)))
  t.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  )
  t.is(
    (
      await db('deployments').whereIn(
        'id',
        good.map(({ deploymentId }) => deploymentId),
      )
    ).length,
    3,
  )
  t.is(await db('deployments').where({ id: bad.deploymentId }).first(), undefined)
})

test('confirmations of undone pushes and of deleted applications change nothing, and fail no other', async t => {
  const { db, made } = await apps(2)
  const [kept, deleted] = made as [Source, Source]
  const [one, other, missing] = [push(kept), push(deleted), push(kept)] as const
  await Promise.all([store(db, one), store(db, other)])
  await db('apps').where({ id: deleted.appId }).update({ desired_state: 'deleted' })
  const confirmed = [one, other, missing].map(({ appId, ownerId, operationId }) =>
    pushes.confirm(db, { appId, ownerId }, operationId),
  )
  t.deepEqual(await Promise.all(confirmed), [true, false, false])
})

test('two processes store the same deliveries for the same applications, in opposite order: each is one deployment', async t => {
  const { made } = await apps(12)
  const [db, one, two] = [(await database).db, await anotherProcess(), await anotherProcess()]
  for (let round = 0; round < 5; round++) {
    const deliveries = made.map(source => push(source, `b${round}`).delivery)
    const copies = () => made.map((source, n) => ({ ...push(source, `b${round}`), delivery: deliveries[n]! }))
    const [forwards, backwards] = [copies(), copies().reverse()]
    const [first, second] = await Promise.all([
      Promise.all(forwards.map(each => store(one, each))),
      Promise.all(backwards.map(each => store(two, each))),
    ])
    const queuedOnes = [...forwards, ...backwards].filter((_, n) => [...first, ...second][n]!.kind === 'queued')
    t.true((await commitsOf(db, queuedOnes)) <= 2, 'neither had to give up waiting for the other')
    for (const [n, outcome] of first.entries()) {
      const copy = second[made.length - 1 - n]!
      t.deepEqual([outcome.kind, copy.kind].sort(), ['duplicate', 'queued'])
      t.is((outcome as { deploymentId: string }).deploymentId, (copy as { deploymentId: string }).deploymentId)
    }
    const confirming = (process: Db, outcomes: PushOutcome[], sources: Source[]) =>
      outcomes.map(({ operationId }, n) => operationId && pushes.confirm(process, sources[n]!, operationId))
    const confirmed = await Promise.all([...confirming(one, first, made), ...confirming(two, second, backwards)])
    t.true(confirmed.every(answer => answer === true || answer === undefined))
    const queued = await db('operations')
      .whereIn(
        'target_id',
        made.map(({ appId }) => appId),
      )
      .where({ state: 'queued' })
    t.is(queued.length, made.length * (round + 1))
  }
})

test('a push of another account is in the first batch, however many pushes an account has sent before', async t => {
  const { db, made } = await apps(20)
  const { made: others } = await apps(1)
  const many = made.flatMap(source => Array.from({ length: 15 }, (_, n) => push(source, `b${n}`)))
  const own = push(others[0]!)
  const finished: string[] = []
  const stored = [...many, own].map(one => store(db, one).then(() => finished.push(one.deploymentId)))
  await Promise.all(stored)
  t.true(many.length > 2 * pushesAtOnce)
  // Two batches run concurrently.
  t.true(finished.indexOf(own.deploymentId) < 2 * pushesAtOnce)
  t.true((await commitsOf(db, [...many, own])) >= many.length / pushesAtOnce, 'a batch is bounded')
})

test('a push that is not begun in time is refused, and never stored', async t => {
  const { db, made } = await apps(1)
  const late = push(made[0]!)
  await t.throwsAsync(pushes.store(db, late, performance.now() - 1), { name: 'NotBegun' })
  const next = push(made[0]!)
  t.is((await store(db, next)).kind, 'queued')
  t.is(await db('deployments').where({ id: late.deploymentId }).first(), undefined)
})

test('an account whose rows are all locked, each for almost half a second, delays pushes of others once and fails none', async t => {
  const [{ made: stuck }, { db, made: others }] = [await apps(12), await apps(20)]
  const lockers = await Promise.all(
    stuck.map(({ appId }) => locker('select 1 from apps where id = $1 for update', appId)),
  )
  const locked = new Set(lockers)
  const letGo = async (locker: (typeof lockers)[number]) => locked.delete(locker) && locker.client.end()
  let isOver = false
  /** A push that waits for a row of theirs gets it just before it would give up, and waits for the next one. */
  const teasing = (async () => {
    while (!isOver && locked.size > 0) {
      const { rows: waits } = await (await database).db.raw(
        "select pg_blocking_pids(pid) as by from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      )
      const next = [...locked].find(({ pid }) => waits.some(({ by }: { by: number[] }) => by.includes(pid)))
      if (!next) await sleep(5)
      else {
        await sleep(acceptance.push.togetherLockMs - 50)
        await letGo(next)
      }
    }
  })()
  const before = { ...acceptance.push }
  Object.assign(acceptance.push, { lockMs: 4000 })
  const delayed = Promise.allSettled(stuck.map(source => store(db, push(source))))
  const stored = await Promise.allSettled(others.map(source => store(db, push(source)).then(({ kind }) => kind)))
  const stillLocked = locked.size
  isOver = true
  await teasing
  await Promise.all(lockers.map(letGo))
  Object.assign(acceptance.push, before)
  t.deepEqual(
    stored,
    others.map(() => ({ status: 'fulfilled', value: 'queued' })),
  )
  t.true(stillLocked > 0, 'they waited for none of the locked ones after the first half second')
  t.deepEqual(
    await delayed.then(all => all.map(({ status }) => status)),
    stuck.map(() => 'fulfilled'),
  )
})

test('confirmations of an account whose rows are locked hold up no others that share their statement', async t => {
  const [{ made: stuck }, { db, made: others }] = [await apps(3), await apps(5)]
  const all = [...stuck, ...others].map(source => push(source))
  await Promise.all(all.map(one => store(db, one)))
  const held = stuck.map(({ appId }) => appId)
  const { client } = await locker('select 1 from apps where id = any($1) for update', held)
  const confirmed = await Promise.all(
    all.map(({ appId, ownerId, operationId }) => pushes.confirm(db, { appId, ownerId }, operationId)),
  )
  await client.end()
  t.deepEqual(confirmed, [...stuck.map(() => undefined), ...others.map(() => true)])
  t.is(await commitsOfConfirmed(db, all.slice(stuck.length)), 1)
})

test('after a held application, pushes of a statement still wait for other rows that are held for a moment', async t => {
  const [{ made: stuck }, { db, made: others }] = [await apps(1), await apps(3)]
  const addressHash = Buffer.from(newId())
  const webhookId = newId()
  const { appId } = others[0]!
  const webhook = { id: webhookId, app_id: appId, address_hash: addressHash, address_sealed: 'x', token_sealed: 'x' }
  await db('git_webhooks').insert(webhook)
  const [held, moment] = await Promise.all([
    locker('select 1 from apps where id = $1 for update', stuck[0]!.appId),
    locker('select 1 from git_webhooks where id = $1 for update', webhookId),
  ])
  const late = store(db, push(stuck[0]!))
  const pushed = others.map((source, n) => push(source, 'main', n === 0 ? { webhookId, addressHash } : {}))
  const lettingGo = moment.letGoWhenWaitedFor()
  const stored = Promise.all(pushed.map(one => store(db, one)))
  t.deepEqual(kinds(await stored), ['queued', 'queued', 'queued'])
  await lettingGo
  t.is(await commitsOf(db, pushed), 1)
  await held.client.end()
  t.is((await late).kind, 'queued')
})
