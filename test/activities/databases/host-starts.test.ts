import test from 'ava'
import { HostUnreachable } from '../../../activities/containers/port.ts'
import { EngineUnavailable } from '../../../activities/databases/port.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { transaction } from '../../../db/database.ts'
import { releaseSnapshotSlot } from '../../../db/snapshots/snapshot-slots.ts'
import { markSnapshotGood, recordSnapshotProof } from '../../../db/snapshots/snapshots.ts'
import { MiB } from '../../../lib/bytes.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { hostSteps } from '../../kit/databases/host-steps.ts'
import { redisClient, redisOptions } from '../../kit/databases/redis-customer.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** A snapshot that was taken and recorded as good; the slot of its host is free again. */
async function goodSnapshot(host: Awaited<ReturnType<typeof hostSteps>>) {
  const snapshot = await host.beginSnapshot()
  const taken = await snapshot.step((steps, input) => steps.takeDatabaseSnapshot(input))
  await transaction(host.db, async trx => {
    await markSnapshotGood(trx, snapshot.id, taken)
    await recordSnapshotProof(trx, snapshot.id, taken)
  })
  await snapshot.end()
  await releaseSnapshotSlot(host.db, (await host.facts()).hostId, snapshot.id)
  return { ...taken, id: snapshot.snapshot }
}

test.serial('an engine that ends at once is looked after as one that ends a moment later', async t => {
  let command: string[] | null = null
  const repairs: string[] = []
  const host = await hostSteps((await database).db, {
    ...{ engine: 'redis', version: '8', ramMb: 512 },
    adapter: real => ({
      command: traits => command ?? real.command(traits),
      async repair(data) {
        repairs.push(data)
        command = null
        return true
      },
    }),
  })
  t.teardown(host.clean)
  await host.create()
  const stop = await host.begin('stop')
  await stop.step((steps, input) => steps.stopDatabase(input, { mustRun: true }))
  await stop.end()

  command = ['false']
  const start = await host.begin('start')
  const { containerId } = await start.step((steps, input) => steps.startDatabase(input, { mustStand: true }))
  await start.end()
  t.deepEqual(repairs, [host.hosted.foldersOf(await host.facts()).data])
  t.true(await host.running())
  const containers = (await host.engine.list({})).filter(({ name }) => name.includes(host.id))
  t.deepEqual(
    [containerId],
    containers.map(({ id }) => id),
    'of the engine that serves, and not of the one that has ended',
  )
})

test.serial('a volume grows for no memory that its row does not have as its disk already', async t => {
  const host = await hostSteps((await database).db, { engine: 'redis', version: '8', ramMb: 512 })
  t.teardown(host.clean)
  await host.create()
  const { ensure } = host.volumes
  const recorded: number[] = []
  host.volumes.ensure = async (...args) => {
    recorded.push((await host.facts()).diskForMb)
    await ensure(...args)
  }
  const start = async (back: boolean) => {
    const resize = await host.begin('resize', { ramMb: 1024 })
    await resize.step((steps, input) => steps.startDatabase({ ...input, back }, { mustStand: false }))
    await resize.end()
  }
  await start(true)
  await start(false)
  t.deepEqual(recorded, [512, 1024])
  t.like(await host.facts(), { ramMb: 512, diskForMb: 1024 })
})

test.serial('a restore that would give up changes which are not stored makes nothing', async t => {
  const host = await hostSteps((await database).db, {
    ...{ engine: 'redis', version: '8', ramMb: 512 },
    pointInTime: { beforeRestore: () => Promise.reject(new Error('The object store is away.')) },
  })
  t.teardown(host.clean)
  await host.create()
  const restore = await host.begin('restore', { volumes: { dump: 2, copy: 3 } })
  await t.throwsAsync(
    restore.step((steps, input) => steps.prepareRestore(input)),
    { message: 'The object store is away.' },
  )
  t.deepEqual(await host.volumes.list(), [`${host.id}-1`])
})

test.serial('a snapshot and a restore begin only where the host has room for a dump and a copy', async t => {
  const host = await hostSteps((await database).db, { engine: 'redis', version: '8', ramMb: 512 })
  t.teardown(host.clean)
  await host.create()
  const used = await host.volumes.usedBytes(`${host.id}-1`)
  const demanded: number[] = []
  host.volumes.demandRoom = async bytes => {
    demanded.push(bytes)
    t.deepEqual(await host.volumes.list(), [`${host.id}-1`])
    throw new NoSpaceLeft('The host has 3 MB of disk space left, and 8 MB are needed.')
  }
  const full = { type: 'CONTAINER_INSUFFICIENT_DISK_SPACE', message: /has 3 MB/ }
  const snapshot = await host.beginSnapshot()
  t.like(await t.throwsAsync(snapshot.step((steps, input) => steps.takeDatabaseSnapshot(input))), { type: full.type })
  await snapshot.end()
  const restore = await host.begin('restore', { volumes: { dump: 12, copy: 13 } })
  // Of an attempt that was interrupted: its room is free before more is demanded.
  await host.volumes.ensure(`${host.id}-13`, 16, 0)
  t.like(
    await t.throwsAsync(
      restore.step((steps, input) => steps.prepareRestore(input)),
      { message: full.message },
    ),
    {
      type: full.type,
    },
  )
  t.deepEqual([demanded.length, demanded.every(bytes => bytes >= 2 * used && bytes < 3 * used)], [2, true])
  t.deepEqual(await host.volumes.list(), [`${host.id}-1`])
})

test.serial('a restore of Postgres begins only where the host has room also for the WAL files of its copy', async t => {
  const host = await hostSteps((await database).db, {
    ...{ engine: 'postgres', version: '17', ramMb: 1024, archives: true },
  })
  t.teardown(host.clean)
  await host.create()
  const demanded: number[] = []
  host.volumes.usedBytes = async () => 1000
  host.volumes.demandRoom = async bytes => {
    demanded.push(bytes)
    throw new NoSpaceLeft('The host has 3 MB of disk space left, and 258 MB are needed.')
  }
  const snapshot = await host.beginSnapshot()
  await t.throwsAsync(snapshot.step((steps, input) => steps.takeDatabaseSnapshot(input)))
  await snapshot.end()
  const restore = await host.begin('restore', { volumes: { dump: 12, copy: 13 } })
  await t.throwsAsync(restore.step((steps, input) => steps.prepareRestore(input)))
  t.deepEqual(demanded, [2000, 2000 + 256 * MiB], 'what is only compared leaves none')
})

test.serial('a restore of a snapshot begins only where the host has the room that its proof has filled', async t => {
  const host = await hostSteps((await database).db, { engine: 'redis', version: '8', ramMb: 512 })
  t.teardown(host.clean)
  await host.create()
  const client = await redisClient(redisOptions(await host.remote(), await host.password(1)))
  await client.eval("for i = 1, 20000 do redis.call('SET', 'key:' .. i, 'value') end", 0)
  client.disconnect()
  const filled: number[] = []
  const { usedBytes } = host.volumes
  host.volumes.usedBytes = async volume => {
    const bytes = await usedBytes(volume)
    if (volume !== `${host.id}-1`) filled.push(bytes)
    return bytes
  }
  const taken = await goodSnapshot(host)
  const { hostId } = await host.facts()
  const [dump, copy] = filled
  t.is(taken.restoredBytes, dump! + copy!)
  t.true(dump! > 2 * taken.size, 'the archive is compressed')

  const demanded: number[] = []
  host.volumes.demandRoom = async bytes => {
    demanded.push(bytes)
    throw new NoSpaceLeft('The host has 3 MB of disk space left, and 8 MB are needed.')
  }
  // Nothing of what is restored is there any more.
  host.volumes.usedBytes = async () => 1000
  const attempt = async () => {
    const restore = await host.begin('restore', { snapshotId: taken.id, volumes: { dump: 12, copy: 13 } })
    await t.throwsAsync(restore.step((steps, input) => steps.prepareRestore(input)))
    await restore.end()
    const drill = await host.begin('drill', {
      ...{ snapshotId: taken.id, drillHost: hostId, volumes: { dump: 14, copy: 15 } },
    })
    await t.throwsAsync(drill.step((steps, input) => steps.drillSnapshot(input)))
    await drill.end()
    await releaseSnapshotSlot(host.db, hostId, drill.id)
  }
  await attempt()
  // As a snapshot of an earlier version.
  await host.db('snapshots').where({ id: taken.id }).update({ restored_bytes: null })
  await attempt()
  t.deepEqual(demanded, [taken.restoredBytes, taken.restoredBytes, 2 * taken.size, 2 * taken.size])
})

test.serial(
  'a drill of an archive that is missing finds a damaged snapshot; where the store or the host is away it finds nothing',
  async t => {
    let isAway = false
    let isSilent = false
    let real: ObjectStore | undefined
    const host = await hostSteps((await database).db, {
      ...{ engine: 'redis', version: '8', ramMb: 512 },
      store: store => {
        real = store
        const open = store.open.bind(store)
        return { open: id => (isAway ? Promise.reject(new Error('connect ECONNREFUSED')) : open(id)) }
      },
      contents: ({ digest }) => ({
        digest: local => (isSilent ? Promise.reject(new EngineUnavailable('It does not serve.')) : digest(local)),
      }),
    })
    t.teardown(host.clean)
    await host.create()
    const { hostId } = await host.facts()
    const snapshot = await goodSnapshot(host)
    const tried = async (volumes: { dump: number; copy: number }) => {
      const drill = await host.begin('drill', { snapshotId: snapshot.id, drillHost: hostId, volumes })
      const result = await drill.step((steps, input) => steps.drillSnapshot(input)).catch((error: unknown) => error)
      await drill.end()
      await releaseSnapshotSlot(host.db, hostId, drill.id)
      t.deepEqual(await host.volumes.list(), [`${host.id}-1`], 'nothing of it stays')
      return result
    }
    isAway = true
    const away = await tried({ dump: 12, copy: 13 })
    const message = 'The archive of the snapshot could not be read: connect ECONNREFUSED'
    t.like(away, { type: 'SNAPSHOT_RESTORE_FAILED', nonRetryable: false, message })
    isAway = false
    const { create } = host.engine
    host.engine.create = () => Promise.reject(new HostUnreachable('connect ENOENT'))
    const unreachable = 'The snapshot could not be tried: connect ENOENT'
    t.like(await tried({ dump: 18, copy: 19 }), { type: 'SNAPSHOT_RESTORE_FAILED', message: unreachable })
    host.engine.create = create
    isSilent = true
    t.like(await tried({ dump: 20, copy: 21 }), { type: 'EngineUnavailable', message: 'It does not serve.' })
    await real!.delete(snapshot.segmentId)
    t.deepEqual(await tried({ dump: 14, copy: 15 }), {
      ...{ digest: null, reason: 'Its archive is missing in the object store.' },
    })
    const restore = await host.begin('restore', { snapshotId: snapshot.id, volumes: { dump: 16, copy: 17 } })
    t.like(await t.throwsAsync(restore.step((steps, input) => steps.prepareRestore(input))), {
      type: 'SNAPSHOT_CORRUPT',
    })
  },
)
