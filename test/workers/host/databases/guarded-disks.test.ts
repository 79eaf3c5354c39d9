import { execFileSync } from 'node:child_process'
import { lstatSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { databaseDiskGuard } from '../../../../activities/databases/disk-guard.ts'
import { diskSpace, dropBallast, layBallast, withRoom } from '../../../../activities/databases/disk-space.ts'
import type { HostedEngines } from '../../../../activities/databases/hosted-engine.ts'
import { EngineUnavailable } from '../../../../activities/databases/port.ts'
import { loopVolumes } from '../../../../activities/volumes/loop.ts'
import { type DatabaseFacts, readFactsOfDatabase } from '../../../../db/operations/database-facts.ts'
import { diskGuard } from '../../../../policy/databases/disk-guard.ts'
import { DatabaseDisks } from '../../../../workers/host/databases/database-disks.ts'
import { demandRoot } from '../../../kit/root.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()
const MB = 1024 * 1024
const sizeMb = 256

/** A database that runs, on a disk of its own, with an engine that records how it is switched. */
async function scene(t: ExecutionContext, syncsLate = false) {
  demandRoot()
  const host = await watchedHost((await database).db)
  const { db, hostId, options, serving, row } = host
  const root = mkdtempSync(join(tmpdir(), 'berth-disks-'))
  const volumes = loopVolumes(root)
  const one = await serving()
  await volumes.ensure(one.volume, sizeMb, 0)
  const volume = volumes.path(one.volume)
  t.teardown(async () => {
    await volumes.remove(one.volume)
    rmSync(root, { recursive: true, force: true })
  })
  const switched: string[] = []
  /** The bytes that were free, for each time that the engine was to make room. */
  const shrunk: number[] = []
  const engine = { answers: true, repairs: false }
  const words = ({ readOnly }: Pick<DatabaseFacts, 'readOnly'>) => (readOnly ? 'read-only' : 'writable')
  const hosted = {
    settle: async (facts: DatabaseFacts) => void switched.push(`settings ${words(facts)}`),
    adapterOf: () => ({
      admitWrites: async (local: { readOnly: boolean }) => void switched.push(`engine ${words(local)}`),
      shrinkFiles: async (_local: unknown, freeBytes: number) => void shrunk.push(freeBytes),
      discardDrafts: async (data: string) => rmSync(`${data}.draft`, { force: true }),
      repair: async () => engine.repairs,
    }),
    traitsOf: ({ readOnly }: DatabaseFacts) => ({ readOnly, syncsLate }),
    async locally(facts: DatabaseFacts, work: (local: unknown) => Promise<void>) {
      if (!engine.answers) throw new EngineUnavailable('it does not answer')
      await work(facts)
    },
    foldersOf: () => ({ data: join(volume, 'files') }),
  } as unknown as HostedEngines
  const guard = databaseDiskGuard({ db, volumes, hosted })
  const stopped: string[] = []
  const stop = async (name: string) => void stopped.push(name)
  const watched = { db, guard, engine: { stop }, locks: options.locks, hostId, sharedUid: null, log: options.log }
  const disks = new DatabaseDisks({ ...watched, held: options.held })
  return {
    ...{ ...host, one, volume, switched, shrunk, engine, guard, disks, stopped },
    facts: async () => (await readFactsOfDatabase(db, one.id))!,
    isReadOnly: async () => (await row(one.id)).read_only_since !== null,
    ballastMb: () => Math.floor((lstatSync(join(volume, 'ballast'), { throwIfNoEntry: false })?.blocks ?? 0) / 2048),
    /** Uses its disk up to this share, the ballast left out. */
    use(share: number): void {
      const { blocks, bsize } = statfsSync(volume)
      const path = join(volume, 'used')
      rmSync(path, { force: true })
      // What was freed can be used once that is written.
      execFileSync('sync', ['-f', volume])
      const { bavail } = statfsSync(volume)
      const ballast = lstatSync(join(volume, 'ballast'), { throwIfNoEntry: false })?.blocks ?? 0
      const used = (blocks - bavail) * bsize - ballast * 512
      const length = Math.ceil((blocks * bsize - diskGuard.ballastBytes) * share) - used
      execFileSync('fallocate', ['--length', String(length), path])
    },
    /** Uses all that is left. */
    fill(): void {
      for (let n = 0; statfsSync(volume).bavail > 0; n++) {
        const { bavail, bsize } = statfsSync(volume)
        // Its own map takes blocks, too.
        const length = Math.max(bsize, bavail * bsize - 16 * bsize)
        try {
          execFileSync('fallocate', ['--length', String(length), join(volume, `filled-${n}`)], { stdio: 'ignore' })
        } catch (error) {
          if (n > 100) throw error
        }
      }
    },
  }
}

test('writes end at 98 % and begin again below 95 %, in settings, engine and row; looks come faster when it is nearly full', async t => {
  const { disks, use, switched, isReadOnly, ballastMb } = await scene(t)
  await disks.round()
  t.is(ballastMb(), 32, 'one that had none gets its ballast')
  t.is(disks.pauseMs, 10_000)
  use(0.97)
  await disks.round()
  t.deepEqual([await isReadOnly(), switched, disks.pauseMs], [false, [], 1000])
  use(0.985)
  await disks.round()
  t.true(await isReadOnly())
  t.deepEqual(switched.splice(0), ['settings read-only', 'engine read-only'])
  await disks.round()
  use(0.96)
  await disks.round()
  t.deepEqual([await isReadOnly(), switched], [true, []], 'once, and until there is room')
  use(0.9)
  await disks.round()
  t.false(await isReadOnly())
  t.deepEqual(switched, ['settings writable', 'engine writable'])
  t.is(ballastMb(), 32)
})

test('another run of the engine is made read-only again, and one that did not answer in the next round', async t => {
  const { db, one, disks, use, switched, engine, isReadOnly } = await scene(t)
  use(0.985)
  engine.answers = false
  await disks.round()
  t.true(await isReadOnly(), 'the row first: the next start is read-only in any case')
  engine.answers = true
  switched.length = 0
  await disks.round()
  t.deepEqual(switched.splice(0), ['settings read-only', 'engine read-only'])
  await db('databases').where({ id: one.id }).update({ started_at: new Date() })
  await disks.round()
  t.deepEqual(switched.splice(0), ['settings read-only', 'engine read-only'])
  engine.answers = false
  use(0.5)
  await disks.round()
  t.true(await isReadOnly(), 'the row last')
})

test('nothing is done while it is locked, stopped, or on a host that another process has taken over', async t => {
  const { db, one, options, disks, guard, use, switched, isReadOnly } = await scene(t)
  use(0.985)
  let unlock = () => {}
  const held = options.locks(one.id, () => new Promise<void>(done => (unlock = done)))
  await disks.round()
  t.false(await isReadOnly())
  unlock()
  await held
  const watched = { db, guard, engine: { stop: async () => {} }, locks: options.locks, hostId: options.hostId }
  const replaced = async () => Promise.reject(new Error('another process is this host now'))
  await new DatabaseDisks({ ...watched, sharedUid: null, log: options.log, held: replaced }).round()
  t.false(await isReadOnly())
  await db('databases').where({ id: one.id }).update({ status: 'exited' })
  await disks.round()
  t.deepEqual([await isReadOnly(), switched], [false, []])
})

test('an engine that answers nothing since its disk is full is ended, in the second round', async t => {
  const { disks, fill, engine, stopped, one } = await scene(t)
  await disks.round()
  fill()
  engine.answers = false
  await disks.round()
  t.deepEqual(stopped, [])
  await disks.round()
  t.deepEqual(stopped, [one.name])
})

test('an engine that syncs late gets the ballast while it runs; others keep theirs for their next start', async t => {
  for (const syncsLate of [true, false]) {
    const { disks, fill, ballastMb, isReadOnly } = await scene(t, syncsLate)
    await disks.round()
    fill()
    await disks.round()
    t.true(await isReadOnly())
    t.is(ballastMb(), syncsLate ? 0 : 32)
  }
})

test('an engine makes room of what was deleted when writes end, in each look while they have, and when they begin again', async t => {
  const { disks, use, shrunk } = await scene(t)
  await disks.round()
  t.deepEqual(shrunk, [])
  use(0.985)
  await disks.round()
  t.is(shrunk.length, 1)
  await disks.round()
  await disks.round()
  t.is(shrunk.length, 3)
  t.true(
    shrunk.every(bytes => bytes > 0 && bytes < 0.02 * sizeMb * MB),
    `without the ballast: ${shrunk}`,
  )
  use(0.9)
  await disks.round()
  await disks.round()
  t.is(shrunk.length, 4)
})

test('unfinished files of the last run are removed before a start, and make room for it', async t => {
  const { guard, facts, use, fill, volume, ballastMb } = await scene(t)
  await layBallast(volume)
  execFileSync('fallocate', ['--length', String(60 * MB), join(volume, 'files.draft')])
  use(0.5)
  fill()
  const { readOnly } = await guard.beforeStart(await facts())
  t.deepEqual([readOnly, ballastMb()], [false, 32])
})

test('a start on a full disk gets the ballast and is read-only; one with room gets a ballast', async t => {
  const { guard, facts, fill, isReadOnly, ballastMb, volume, use } = await scene(t)
  const first = await guard.beforeStart(await facts())
  t.deepEqual([first.readOnly, ballastMb(), await isReadOnly()], [false, 32, false])
  use(0.985)
  fill()
  const full = await guard.beforeStart(await facts())
  t.deepEqual([full.readOnly, ballastMb(), await isReadOnly()], [true, 0, true])
  t.true(statfsSync(volume).bavail * statfsSync(volume).bsize >= 31 * MB)
  const again = await guard.beforeStart(await facts())
  t.true(again.readOnly, 'as long as its row says so')
})

test('a start that fails is repaired, refused for lack of room, or what it was', async t => {
  const { guard, facts, fill, engine, volume } = await scene(t)
  const failure = Object.assign(new Error('it ended'), { type: 'ACTION_FAILED' })
  const ended = () => Promise.reject(failure)
  const repairing = (repair: () => Promise<boolean>) => repair()
  await t.throwsAsync(guard.untilServing(await facts(), ended, repairing), { is: failure } as never)
  let attempts = 0
  const secondTime = async () => {
    if (++attempts === 1) throw failure
  }
  engine.repairs = true
  await guard.untilServing(await facts(), secondTime, repairing)
  t.is(attempts, 2)
  engine.repairs = false
  fill()
  await dropBallast(volume)
  fill()
  const error = await t.throwsAsync(guard.untilServing(await facts(), ended, repairing))
  t.is((error as { type?: string }).type, 'CONTAINER_INSUFFICIENT_DISK_SPACE')
  const other = new Error('the host has ended')
  await t.throwsAsync(
    guard.untilServing(await facts(), () => Promise.reject(other), repairing),
    { is: other } as never,
  )
})

test('files of the host find room on a full disk, at the cost of a part of the ballast, which is made whole later', async t => {
  const { volume, fill, ballastMb } = await scene(t)
  await layBallast(volume)
  fill()
  const write = async () => writeFileSync(join(volume, 'settings.new'), 'x'.repeat(200_000))
  await withRoom(volume, write)
  t.is(ballastMb(), 31)
  await layBallast(volume)
  t.is(ballastMb(), 31, 'not while there is no room')
  for (let n = 0; n < 5; n++) rmSync(join(volume, `filled-${n}`), { force: true })
  await layBallast(volume)
  t.is(ballastMb(), 32)
  const failure = new Error('something else')
  await t.throwsAsync(
    withRoom(volume, () => Promise.reject(failure)),
    { is: failure },
  )
})

test('a folder that is no file system of its own has no room to speak of', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-disks-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  t.is(await diskSpace(folder), null)
  t.is(await diskSpace(join(folder, 'missing')), null)
  await layBallast(folder)
  t.is(lstatSync(join(folder, 'ballast'), { throwIfNoEntry: false }), undefined)
})
