import test, { type ExecutionContext } from 'ava'
import { databaseJob, foldersOf } from '../../../activities/databases/container.ts'
import type { HostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { databaseContainerName, databaseJobName, databaseVolume } from '../../../activities/databases/names.ts'
import { endOtherEngines } from '../../../activities/databases/other-engines.ts'
import { servingMeanwhile, servingPrivately } from '../../../activities/databases/preparation.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { ownFolder } from '../../kit/folders.ts'
import { makeDatabase } from '../../kit/rows/databases.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))

/** A database whose engine has crashed, and what a restore to a moment does with it. */
async function scene(t: ExecutionContext) {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  await rows(db).host('h1')
  const { id } = await makeDatabase(db, keys, ownerId, { engine: 'postgres' })
  await db('databases').where({ id }).update({ status: 'exited' })
  const facts = { ...(await readFactsOfDatabase(db, id))!, uid: process.getuid!() }
  const volumes = folderVolumes(ownFolder(t))
  await volumes.ensure(databaseVolume(facts), 16, facts.uid)
  const folders = foldersOf(volumes.path(databaseVolume(facts)))
  const engine = new FakeContainerHost()
  const hosted = {
    adapterOf: () => ({ command: () => ['serve'] }),
    traitsOf: () => ({}),
    foldersOf: () => folders,
    hostnameOf: () => 'db-a.apps.localhost',
    settle: async () => {},
    untilServing: async () => {},
  } as unknown as HostedEngines
  const traits = { id: 'h1', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null } as const
  const options = { db, engine, volumes, hosted, traits, diskMb: () => 16, locks: appLocks() }
  const running = async (name: string) => (await engine.inspect(name))?.running ?? false
  return {
    ...{ db, id, facts, engine, options },
    serves: () => running(databaseContainerName(facts)),
    standsIn: () => running(databaseJobName(facts)),
    meanwhile: <T>(work: () => Promise<T>) => servingMeanwhile(options, facts, new AbortController().signal, work),
    /** As the step that starts a database does, with its lock; `pause` is called between what it ends and its start. */
    start: (pause: () => Promise<void> = async () => {}) =>
      options.locks(id, async () => {
        await endOtherEngines(engine, traits.id, facts)
        await pause()
        const name = databaseContainerName(facts)
        await engine.create({ ...databaseJob(facts, folders, ['serve'], traits), name })
        await engine.start(name)
      }),
  }
}

test('an engine that stands in does so while the database does not run, and has ended afterwards', async t => {
  const { meanwhile, standsIn, serves } = await scene(t)
  t.true(await meanwhile(standsIn))
  t.false(await standsIn())
  t.false(await serves())
})

test('an engine that stands in reaches itself under the name that clients know', async t => {
  const { meanwhile, facts, engine } = await scene(t)
  const spec = await meanwhile(async () => engine.containers.get(databaseJobName(facts))?.spec)
  t.like(spec, { network: 'none', ownNames: ['db-a.apps.localhost'] })
})

test('a start that is under way is waited for, and then nothing stands in: two engines on one volume destroy it', async t => {
  const { start, meanwhile, standsIn, serves } = await scene(t)
  let both = false
  const started = start(async () => {
    // As long as a slow engine takes to create and start a container.
    for (let turn = 0; turn < 20; turn++) {
      await new Promise(done => setTimeout(done, 10))
      both ||= await standsIn()
    }
  })
  const stoodIn = meanwhile(async () => {
    both ||= await serves()
  })
  await started
  await t.throwsAsync(stoodIn, { message: /is started again/ })
  t.false(both)
  t.true(await serves())
})

test('a start ends an engine that stands in, before its own begins', async t => {
  const { start, meanwhile, standsIn, serves } = await scene(t)
  let begun = () => {}
  const beginning = new Promise<void>(done => (begun = done))
  let go = () => {}
  const held = new Promise<void>(done => (go = done))
  const stoodIn = meanwhile(async () => {
    begun()
    await held
  })
  await beginning
  t.true(await standsIn())
  let before = true
  await start(async () => {
    before = await standsIn()
  })
  t.false(before)
  go()
  await stoodIn.catch(() => {})
  t.true(await serves())
})

test('nothing stands in for a database that is about to run', async t => {
  for (const status of ['starting', 'running', 'restarting']) {
    const { db, id, meanwhile } = await scene(t)
    await db('databases').where({ id }).update({ status })
    await t.throwsAsync(
      meanwhile(async () => {}),
      { message: /is started again/ },
    )
  }
})

test('a container that replaces it under the lock is not touched, and a cancelled caller starts nothing', async t => {
  const { facts, options, meanwhile, standsIn } = await scene(t)
  let [begun, go] = [() => {}, () => {}]
  const beginning = new Promise<void>(done => (begun = done))
  const held = new Promise<void>(done => (go = done))
  const stoodIn = meanwhile(async () => {
    begun()
    await held
  })
  await beginning
  const signal = new AbortController().signal
  // As the renewal of a password in a start.
  await options.locks(facts.id, () =>
    servingPrivately(options, facts, signal, async () => {
      go()
      await stoodIn
      t.true(await standsIn())
    }),
  )
  t.false(await standsIn())

  const cancelled = new AbortController()
  const late = options.locks(facts.id, async () => {
    const waiting = servingMeanwhile(options, facts, cancelled.signal, async () => {})
    cancelled.abort(new Error('cancelled'))
    return { waiting }
  })
  await t.throwsAsync((await late).waiting, { message: 'cancelled' })
  t.false(options.engine.containers.has(databaseJobName(facts)))
})
