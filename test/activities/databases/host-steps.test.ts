import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import test from 'ava'
import type { DatabaseHostActivities } from '../../../activities/database-host.ts'
import { DumpPrevented } from '../../../activities/databases/contents.ts'
import { databaseContainerName, databaseJobName } from '../../../activities/databases/names.ts'
import { EngineLoads, EngineUnavailable, type LocalEngine } from '../../../activities/databases/port.ts'
import { inSlots } from '../../../activities/steps/host-slots.ts'
import { transaction } from '../../../db/database.ts'
import { recordDatabaseStopped } from '../../../db/databases/databases.ts'
import { enqueueOperation } from '../../../db/operations/operations.ts'
import { markSnapshotGood, recordSnapshotProof } from '../../../db/snapshots/snapshots.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { withTimeout } from '../../../lib/async/timeout.ts'
import { MiB } from '../../../lib/bytes.ts'
import { endWaits } from '../../../policy/databases/database-steps.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { type ClaimedOperation, type HostStepsTerms, hostSteps } from '../../kit/databases/host-steps.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const endMs = 60_000
const late = () => new Error('It goes on.')
const redis = { engine: 'redis', version: '8', ramMb: 512 } as const

type Host = Awaited<ReturnType<typeof hostSteps>>

async function serving(t: { teardown(clean: () => Promise<void>): void }, terms: HostStepsTerms): Promise<Host> {
  const host = await hostSteps((await database).db, terms)
  t.teardown(host.clean)
  await host.create()
  return host
}

/** As its owner stops it. */
/** Id of a snapshot of the database that was taken and proved. */
async function provedSnapshot({ db, beginSnapshot }: Host): Promise<string> {
  const { id, snapshot, step, end } = await beginSnapshot()
  const taken = await step((steps, input) => steps.takeDatabaseSnapshot(input))
  await transaction(db, async trx => {
    await markSnapshotGood(trx, id, taken)
    await recordSnapshotProof(trx, id, taken)
  })
  await end()
  return snapshot
}

async function stop({ begin, db, id }: Host): Promise<void> {
  const operation = await begin('stop')
  const { code, oom, at } = await operation.step((steps, input) => steps.stopDatabase(input, { mustRun: true }))
  await recordDatabaseStopped(db, id, { code, oom, at: new Date(at) })
  await operation.end()
}

/** Never answers, but ends when it is given up. */
const silence = ({ signal }: LocalEngine): Promise<never> =>
  new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }))

for (const silent of ['dump', 'digest'] as const)
  test.serial(`a snapshot that is given up ends while the engine does not answer the ${silent}`, async t => {
    const asked: string[] = []
    const host = await serving(t, {
      ...redis,
      contents: real => ({
        ...real,
        [silent](local: LocalEngine) {
          asked.push(silent)
          return silence(local)
        },
      }),
    })
    const { step } = await host.beginSnapshot()
    const ending = new AbortController()
    const taking = step((steps, input) => steps.takeDatabaseSnapshot(input), ending.signal)
    await Promise.race([comesTrue(() => asked.length > 0), taking])
    ending.abort()
    await t.throwsAsync(withTimeout(taking, endMs, late), { instanceOf: CancelledFailure })
    t.deepEqual(await host.volumes.list(), [`${host.id}-1`], 'nothing of it is left')
    t.true(await host.running())
  })

test.serial(
  'a start removes the engine that a snapshot of the stopped database has left when its host died',
  async t => {
    let dumps = 0
    const contents = {
      dump(local: LocalEngine) {
        dumps++
        return silence(local)
      },
    }
    const host = await serving(t, { ...redis, contents: () => contents })
    await stop(host)
    const job = databaseJobName(await host.facts())
    const { step } = await host.beginSnapshot()
    const ending = new AbortController()
    const taking = step((steps, input) => steps.takeDatabaseSnapshot(input), ending.signal)
    await Promise.race([comesTrue(() => dumps > 0), taking])
    t.true(await host.running(job))
    t.false(await host.running())

    // Its process has ended: nothing of it hears of the start.
    const start = await host.begin('start', {}, ['snapshot'])
    await start.step((steps, input) => steps.startDatabase(input, { mustStand: false }))
    t.false(await host.running(job), 'one engine on the volume')
    t.true(await host.running())
    ending.abort()
    await t.throwsAsync(withTimeout(taking, endMs, late))
  },
)

test.serial('no snapshot starts an engine on a volume whose own one is about to be started again', async t => {
  let dumps = 0
  const contents = {
    async dump() {
      dumps++
      return null
    },
  }
  const host = await serving(t, { ...redis, contents: () => contents })
  await host.engine.stop(databaseContainerName(await host.facts()), 10)
  const { step } = await host.beginSnapshot()
  const failure = await t.throwsAsync(
    step((steps, input) => steps.takeDatabaseSnapshot(input)),
    {
      instanceOf: ApplicationFailure,
      message: /is started again/,
    },
  )
  t.false((failure as ApplicationFailure).nonRetryable, 'the next attempt finds it')
  t.is(dumps, 0)
})

test.serial(
  'a customer whose script keeps the engine from being dumped does not keep the place of others, too',
  async t => {
    const dump = () => Promise.reject(new DumpPrevented('It runs a script.'))
    const host = await serving(t, { ...redis, contents: () => ({ dump }) })
    const { step } = await host.beginSnapshot()
    const failure = await t.throwsAsync(step((steps, input) => steps.takeDatabaseSnapshot(input)))
    t.like(failure, { type: 'SNAPSHOT_FAILED', nonRetryable: true, message: 'It runs a script.' })
  },
)

test.serial('an engine that loads its data is waited for while it makes progress, and no longer', async t => {
  let loads = 0
  let step = 0
  const loading = () => {
    loads -= step
    return Promise.reject(new EngineLoads(`${loads} bytes`))
  }
  const host = await serving(t, {
    ...redis,
    serveSeconds: 4,
    adapter: ({ ping }) => ({ ping: local => (loads > 0 ? loading() : ping(local)) }),
  })
  const startedAgain = async () => {
    await stop(host)
    const start = await host.begin('start')
    const began = performance.now()
    await start.step((steps, input) => steps.startDatabase(input, { mustStand: false })).finally(start.end)
    return performance.now() - began
  }
  ;[loads, step] = [60, 1]
  t.true((await startedAgain()) > 4000, 'longer than it may take without progress')
  ;[loads, step] = [60, 0]
  await t.throwsAsync(startedAgain(), { message: /did not serve within 4 s: The engine loads its data: 60 bytes\.$/ })
})

test.serial(
  'an engine whose container works is waited for although it does not answer, and takes no slot meanwhile',
  async t => {
    let [silent, asked] = [0, 0]
    const host = await serving(t, {
      ...redis,
      serveSeconds: 4,
      adapter: ({ ping }) => ({
        ping: local => (++asked <= silent ? Promise.reject(new EngineUnavailable('It is silent.')) : ping(local)),
      }),
    })
    const { engine } = host
    const stats = engine.stats
    let read = 0
    engine.stats = async name => {
      const reading = await stats(name)
      read += 2 * MiB
      return reading && { ...reading, cpuPercent: 0, blockRead: read, blockWrite: 0 }
    }
    await stop(host)
    silent = asked + 60
    const slots = new FairSlots({ atOnce: 1 })
    const start = async () => {
      const { step, end } = await host.begin('start')
      const inSlot = (steps: DatabaseHostActivities) => inSlots({ startDatabase: steps.startDatabase }, () => slots)
      await step((steps, input) => inSlot(steps).startDatabase(input, { mustStand: false })).finally(end)
    }
    const started = start()
    await Promise.race([started, comesTrue(() => asked > silent - 20)])
    const free = slots.enterNow('another account')
    t.truthy(free, 'what only waits has left its slot')
    free?.()
    await started
    t.true(await host.running())
  },
)

test.serial('a stop that waits ends each wait for an engine as what it is; none of these has a slot', async t => {
  let [isSilent, asked, repairs] = [false, 0, 0]
  const unlessSilent = (call: (local: LocalEngine) => Promise<never>) => (local: LocalEngine) => {
    if (!isSilent) return call(local)
    asked++
    return Promise.reject(new EngineUnavailable('It is silent.'))
  }
  const host = await serving(t, {
    ...redis,
    adapter: ({ ping, reloadCertificate }) => ({
      ping: unlessSilent(ping as never),
      reloadCertificate: unlessSilent(reloadCertificate as never),
      repair: async () => ++repairs < 0,
    }),
  })
  const { db, engine, id, ownerId } = host
  const stats = engine.stats
  engine.stats = async name => {
    const reading = await stats(name)
    return reading && { ...reading, cpuPercent: 100 }
  }
  const queueStop = () =>
    enqueueOperation(db, { targetType: 'database', targetId: id, kind: 'stop', ownerId, actor: ownerId })
  const withdraw = ({ id: operationId }: { id: string }) =>
    db('operations').where({ id: operationId }).update({ state: 'cancelled', finished_at: new Date() })
  const slots = new FairSlots({ atOnce: 1 })
  const inSlot = (steps: DatabaseHostActivities) =>
    inSlots({ startDatabase: steps.startDatabase, reissueCertificate: steps.reissueCertificate }, () => slots)
  const starting = ({ step }: ClaimedOperation, attempt = 1) =>
    step((steps, input) => inSlot(steps).startDatabase(input, { mustStand: false }), undefined, attempt)
  const certifying = ({ step }: ClaimedOperation) => step((steps, input) => inSlot(steps).reissueCertificate(input))

  async function ends(operation: ClaimedOperation, step: Promise<unknown>, what: string): Promise<void> {
    const begun = asked
    const isFree = () => {
      const leave = slots.enterNow('another account')
      leave?.()
      return asked > begun + 1 && leave !== null
    }
    await Promise.race([comesTrue(isFree), step])
    const waiting = await queueStop()
    t.like(await t.throwsAsync(withTimeout(step, endMs, late)), { type: endWaits }, what)
    await withdraw(waiting)
    await operation.end()
  }

  isSilent = true
  const renewal = await host.begin('certify')
  await ends(renewal, certifying(renewal), 'a restart for a new certificate')

  await db('databases').where({ id }).update({ ram_mb: 1024 })
  const resize = await host.begin('resize', { ramMb: 512 })
  await ends(resize, starting(resize), 'a start with less memory')
  t.is(repairs, 0, 'nothing of its data is wrong')

  await engine.stop(databaseContainerName(await host.facts()), 10)
  await db('databases').where({ id }).update({ password_generation: 2 })
  const start = await host.begin('start')
  await ends(start, starting(start), 'a start that first gives it its password where nobody reaches it')
  t.false(await host.running(databaseJobName(await host.facts())))

  const again = await host.begin('start')
  const waiting = await queueStop()
  const made = host.made.length
  t.like(await t.throwsAsync(starting(again, 2)), { type: endWaits }, 'an attempt after one that lacked something')
  t.is(host.made.length, made, 'nothing is started')
  await withdraw(waiting)
  isSilent = false
  await starting(again, 2)
  t.true(await host.running())
})

test.serial('an attempt that was given up does not stop the engine', async t => {
  let lose: (() => Promise<void>) | null = null
  const host = await serving(t, {
    ...redis,
    adapter: ({ setPassword }) => ({
      async setPassword(engine) {
        if (!lose) return setPassword(engine)
        await lose()
        throw new EngineUnavailable('The engine does not answer.')
      },
    }),
  })
  const rotation = await host.begin('rotate')
  lose = rotation.lose
  const before = host.stops.length
  await t.throwsAsync(rotation.step((steps, input) => steps.setDatabasePassword(input, 0)))
  t.deepEqual(host.stops.slice(before), [])
  t.true(await host.running())
})

test.serial('an engine that answers is not restarted because the host cannot give it its password', async t => {
  let fails = false
  const host = await serving(t, {
    ...redis,
    adapter: ({ setPassword }) => ({
      setPassword: engine => (fails ? Promise.reject(new TypeError('a defect')) : setPassword(engine)),
    }),
  })
  fails = true
  const before = host.stops.length
  const rotation = await host.begin('rotate')
  await t.throwsAsync(
    rotation.step((steps, input) => steps.setDatabasePassword(input, 0)),
    { message: 'a defect' },
  )
  t.deepEqual(host.stops.slice(before), [])
})

test.serial('an engine that a start replaces has as long to end as any other of its kind', async t => {
  const host = await serving(t, redis)
  const before = host.stops.length
  await host.db('databases').where({ id: host.id }).update({ ram_mb: 1024 })
  const start = await host.begin('start')
  await start.step((steps, input) => steps.startDatabase(input, { mustStand: false }))
  t.deepEqual(
    host.stops.slice(before).map(([, seconds]) => seconds),
    [engines.redis.stop.graceSeconds],
  )
})

test.serial('a password that was reset while a restore made its copy opens nothing once the copy serves', async t => {
  /** Whether customers could reach the engine when it got its password. */
  const reachable: boolean[] = []
  const scratch: unknown[] = []
  let host: Host | null = null
  host = await serving(t, {
    ...{ engine: 'postgres', version: '17', ramMb: 1024 },
    adapter: ({ setPassword }) => ({
      async setPassword(engine) {
        if (host) reachable.push(await host.running())
        if (host) scratch.push(engine.traits.isScratch)
        return setPassword(engine)
      },
    }),
  })
  const { db, id } = host
  const snapshotId = await provedSnapshot(host)
  const volumes = { dump: 10, copy: 11 }
  const restore = await host.begin('restore', { snapshotId, volumes })
  await restore.step((steps, input) => steps.prepareRestore(input))
  t.deepEqual(scratch, [true, false], 'only what is compared and removed is not synced')
  const rotation = await host.begin('rotate', {}, ['restore'])
  await db('databases').where({ id }).update({ password_generation: 2 })
  await rotation.step((steps, input) => steps.setDatabasePassword(input, 1))
  await rotation.end()
  await host.engine.stop(databaseContainerName(await host.facts()), 60)
  await db('databases').where({ id }).update({ generation: volumes.copy, status: 'exited' })
  await restore.end()
  const anew = await host.begin('restore', { snapshotId, volumes })
  const before = scratch.length
  await anew.step((steps, input) => steps.prepareRestore(input))
  t.is(scratch.length, before, 'a run that begins anew after the switch makes nothing in the volume that serves')
  await anew.end()

  reachable.length = 0
  const start = await host.begin('start')
  await start.step((steps, input) => steps.startDatabase(input, { mustStand: false }))
  t.deepEqual(reachable, [false])
  const { login } = host.hosted.adapterOf(await host.facts())
  const remote = await host.remote()
  t.is(await login(remote, await host.password(2)), 'accepted')
  t.is(await login(remote, await host.password(1)), 'refused')
})

test.serial('an engine serves until what starts after it on a restored volume has nothing left to make', async t => {
  const host = await serving(t, redis)
  const { db, id, engine, made } = host
  const snapshotId = await provedSnapshot(host)
  const volumes = { dump: 10, copy: 11 }
  const copy = { ...(await host.facts()), generation: volumes.copy }
  const restore = await host.begin('restore', { snapshotId, volumes })
  await restore.step((steps, input) => steps.prepareRestore(input))

  const found: unknown[] = []
  const { stop: end } = engine
  const { certificate } = await host.facts()
  engine.stop = async (name, seconds) => {
    const isKept = (await host.facts()).certificate === certificate
    found.push([name, (await engine.inspect(databaseContainerName(copy)))?.status, isKept])
    await end(name, seconds)
  }
  await restore.step((steps, input) => steps.stopDatabase(input, { mustRun: false }))
  t.deepEqual(found, [[databaseContainerName({ id, generation: 1 }), 'created', true]])
  engine.stop = end

  await db('databases').where({ id }).update({ generation: volumes.copy, status: 'restarting' })
  const before = made.length
  await restore.step((steps, input) => steps.startDatabase(input, { mustStand: false }))
  t.is(made.length, before, 'the start takes the container that is there')
  t.true(await host.running())
})

test.serial('a change of the password that has not ended is made again before the engine serves', async t => {
  let dies = false
  const host = await serving(t, {
    ...{ engine: 'postgres', version: '17', ramMb: 1024 },
    adapter: ({ setPassword }) => ({
      async setPassword(engine) {
        const effect = await setPassword(engine)
        if (dies) throw new TypeError('the host dies here')
        return effect
      },
    }),
  })
  const { db, id } = host
  dies = true
  const rotation = await host.begin('rotate')
  await db('databases').where({ id }).update({ password_generation: 2 })
  await t.throwsAsync(rotation.step((steps, input) => steps.setDatabasePassword(input, 1)))
  dies = false
  await db('databases').where({ id }).update({ password_generation: 1 })
  await rotation.end()
  await host.engine.stop(databaseContainerName(await host.facts()), 60)
  const start = await host.begin('start')
  await start.step((steps, input) => steps.startDatabase(input, { mustStand: false }))
  const { login } = host.hosted.adapterOf(await host.facts())
  const remote = await host.remote()
  t.is(await login(remote, await host.password(1)), 'accepted')
  t.is(await login(remote, await host.password(2)), 'refused')
})
