import { writeFile } from 'node:fs/promises'
import test, { type ExecutionContext } from 'ava'
import type { HostedEngines } from '../../../activities/databases/hosted-engine.ts'
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
  let measured = 0
  volumes.demandRoom = async bytes => {
    measured++
    if (bytes > free.mb * MiB) throw new NoSpaceLeft(`The host has ${free.mb} MB of disk space left.`)
  }
  const host = { volumes, engine: new FakeContainerHost(), hosted: {} as HostedEngines, diskMb: () => 1000 }
  const scratch = scratchVolumes(host, async () => free.memoryMb * MiB)
  const database = (id: string, generation = 2) =>
    ({ id, generation, ramMb: 512, uid: process.getuid?.() ?? 0 }) as DatabaseFacts
  const terms = { snapshot: { size: '1', restored_bytes: String(100 * MiB) } }
  return {
    reserves: (id: string) => scratch.reservation(id, database(id), terms)(),
    reservation: (id: string) => scratch.reservation(id, database(id), terms),
    measured: () => measured,
    begins: (id: string) => scratch.makeRoom(id, database(id, 1), [database(id)], terms),
    ends: (id: string) => scratch.leaveRoom(id),
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
  t.is(await reserves('third'), null)
  giveBack!()
  ends('first')
  free.mb = 10
  free.memoryMb = 0
  t.truthy(await reserves('third'))
})

test('what was reserved is the work’s own once that begins', async t => {
  const { reserves, begins, ends } = scene(t, { mb: 200, memoryMb: 2048 })
  const giveBack = await reserves('first')
  await begins('first')
  giveBack!()
  t.truthy(await reserves('second'))
  t.is(await reserves('third'), null, 'of two')
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

test('what does not fit is not measured at every look', async t => {
  const { begins, reservation, measured } = scene(t, { mb: 150, memoryMb: 10_000 })
  await begins('first')
  const reserve = reservation('second')
  t.is(await reserve(), null)
  const before = measured()
  t.is(await reserve(), null)
  t.is(measured(), before)
})
