import { writeFile } from 'node:fs/promises'
import test, { type ExecutionContext } from 'ava'
import type { HostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { databaseJobName } from '../../../activities/databases/names.ts'
import { scratchVolumes } from '../../../activities/databases/snapshots/scratch.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import { MiB } from '../../../lib/bytes.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { ownFolder } from '../../kit/folders.ts'

/** A host with this much room and memory, and databases whose snapshots need 100 MB of the one and 1024 MB of the other. */
function scene(t: ExecutionContext, free: { mb: number; memoryMb: number }) {
  const volumes = folderVolumes(ownFolder(t))
  const measures = { count: 0, meanwhile: async () => {} }
  volumes.demandRoom = async bytes => {
    measures.count++
    const { meanwhile } = measures
    measures.meanwhile = async () => {}
    await meanwhile()
    if (bytes > free.mb * MiB) throw new NoSpaceLeft(`The host has ${free.mb} MB of disk space left.`)
  }
  const engine = new FakeContainerHost()
  const host = { volumes, engine, hosted: {} as HostedEngines, diskMb: () => 1000 }
  const scratch = scratchVolumes(host, async () => free.memoryMb * MiB)
  const database = (id: string, generation = 2) =>
    ({ id, generation, ramMb: 512, uid: process.getuid?.() ?? 0 }) as DatabaseFacts
  const terms = { snapshot: { size: '1', restored_bytes: String(100 * MiB) } }
  /** Operations that have a slot. */
  const holders = new Set<string>()
  return {
    measures,
    /** Those that get a slot with it are `also` alongside. */
    reserves: (id: string, ...also: string[]) => scratch.reservation(id, database(id), terms)([...holders, ...also]),
    reservation: (id: string) => {
      const reserve = scratch.reservation(id, database(id), terms)
      return () => reserve([...holders])
    },
    /** An attempt of one that has a slot. */
    begins(id: string) {
      holders.add(id)
      return scratch.makeRoom(id, database(id, 1), [database(id)], terms)
    },
    ends(id: string) {
      scratch.leaveRoom(id)
      holders.delete(id)
    },
    holders,
    /** Its engine runs, and uses so much memory. */
    async serves(id: string, mb: number) {
      const name = databaseJobName(database(id))
      await engine.create({ name, labels: {}, memoryMb: 1024, command: [], network: 'none', publish: null } as never)
      await engine.start(name)
      engine.figures.set(name, { residentBytes: mb * MiB } as never)
      free.memoryMb -= mb
    },
    /** The copy of a snapshot fills so much of the disk. */
    async fills(id: string, mb: number) {
      await volumes.ensure(`${id}-2`, 1000, process.getuid?.() ?? 0)
      await writeFile(`${volumes.path(`${id}-2`)}/files/data`, Buffer.alloc(mb * MiB, 1))
      free.mb -= mb
    },
    free,
  }
}

test('of two copies that begin together the second needs also the room that the first one has not filled yet', async t => {
  const { begins, ends, fills, free } = scene(t, { mb: 150, memoryMb: 10_000 })
  await begins('first')
  await t.throwsAsync(begins('second'), { instanceOf: NoSpaceLeft })
  ends('second')
  await fills('first', 60)
  free.mb += 45 // 135: 100 for the second and some 40 for the first
  await t.throwsAsync(begins('second'), { instanceOf: NoSpaceLeft })
  ends('second')
  free.mb += 10
  await begins('second')
  ends('second')
  free.mb = 100
  await t.throwsAsync(begins('second'), { instanceOf: NoSpaceLeft }, 'the first still needs 40')
  ends('second')
  ends('first')
  await begins('second')
})

test('a copy waits for room and memory only while others copy', async t => {
  const { reserves, begins, ends, free } = scene(t, { mb: 150, memoryMb: 2047 })
  free.mb = 10
  t.truthy(await reserves('first'), 'alone it is refused by its own work, and waits for nobody')
  free.mb = 200
  await begins('first')
  t.is(await reserves('second'), null, 'two engines need 2048 MB')
  free.memoryMb = 2048
  free.mb = 199
  t.is(await reserves('second'), null, 'two copies need 200 MB')
  free.mb = 200
  const giveBack = await reserves('second')
  t.truthy(giveBack)
  t.is(await reserves('third', 'second'), null)
  giveBack!()
  ends('first')
  free.mb = 10
  free.memoryMb = 0
  t.truthy(await reserves('third'))
})

test('reserved room belongs to its work once the work begins', async t => {
  const { reserves, begins, ends } = scene(t, { mb: 200, memoryMb: 2048 })
  const giveBack = await reserves('first')
  await begins('first')
  giveBack!()
  t.truthy(await reserves('second'))
  t.is(await reserves('third', 'second'), null, 'of two')
  ends('first')
  t.truthy(await reserves('third'))
})

test('a copy that takes more than was estimated owes nothing', async t => {
  const { begins, fills, free } = scene(t, { mb: 400, memoryMb: 10_000 })
  await begins('first')
  await fills('first', 300)
  free.mb = 100
  await t.notThrowsAsync(begins('second'))
})

test('work that does not fit is not measured at every look', async t => {
  const { begins, reservation, measures } = scene(t, { mb: 150, memoryMb: 10_000 })
  await begins('first')
  const reserve = reservation('second')
  t.is(await reserve(), null)
  const before = measures.count
  t.is(await reserve(), null)
  t.is(measures.count, before)
})

test('an attempt that fails keeps the room of its operation for the next one, as long as that has its slot', async t => {
  const { begins, reserves, ends, holders, free } = scene(t, { mb: 150, memoryMb: 10_000 })
  await begins('first')
  t.is(await reserves('second'), null)
  await begins('first')
  free.mb = 10
  holders.delete('first')
  t.truthy(await reserves('second'), 'it was given up')
  free.mb = 250
  holders.add('second')
  await t.notThrowsAsync(begins('third'), 'nothing is owed to what was given up')
  ends('third')
})

test('nothing begins alongside a copy from before a new start of the process until that goes on', async t => {
  const { begins, reserves, holders, free } = scene(t, { mb: 1000, memoryMb: 10_000 })
  holders.add('before')
  t.is(await reserves('second'), null, 'what it needs is not known')
  await begins('before')
  t.truthy(await reserves('second'))
  free.mb = 199
  t.is(await reserves('third', 'second'), null)
  holders.delete('before')
  t.truthy(await reserves('third'), 'it is alone now')
})

test('work that gets no room takes none from other work', async t => {
  const { begins, reserves, measures } = scene(t, { mb: 150, memoryMb: 10_000 })
  await begins('first')
  let retry: Promise<void> | null = null
  measures.meanwhile = async () => {
    retry = begins('first')
    await retry.catch(() => {})
  }
  t.is(await reserves('second'), null)
  await t.notThrowsAsync(retry!)
})

test('an engine that runs counts with the memory that it does not use yet', async t => {
  const { begins, reserves, serves, free } = scene(t, { mb: 1000, memoryMb: 2048 })
  await begins('first')
  await serves('first', 700)
  t.is(free.memoryMb, 1348)
  t.truthy(await reserves('second'), '1024 MB for the second, and 324 for the first')
  free.memoryMb--
  t.is(await reserves('second'), null)
})
