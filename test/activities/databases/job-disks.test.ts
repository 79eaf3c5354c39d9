import test from 'ava'
import { databaseContainerName, databaseJobName } from '../../../activities/databases/names.ts'
import { transaction } from '../../../db/database.ts'
import { markSnapshotGood, recordSnapshotProof } from '../../../db/snapshots/snapshots.ts'
import { hostSteps } from '../../kit/databases/host-steps.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('every container that makes, dumps or loads a database has the limits of the disk that it works on', async t => {
  const host = await hostSteps((await database).db, { engine: 'postgres', version: '17', ramMb: 1024 })
  t.teardown(host.clean)
  const { db, id, made } = host
  /** The containers that the work makes, in order, each with the generation of the volume whose limits it has. */
  async function madeBy(work: () => Promise<unknown>) {
    made.length = 0
    await work()
    return made.map(({ name, disk }) => [name, disk?.mbps])
  }
  const job = (generation: number) => databaseJobName({ id, generation })
  const dump = (generation: number) => `${job(generation)}-dump`

  const [serves, [first, second], [kept, read]] = [1, [10, 11], [20, 21]] as const
  t.deepEqual(await madeBy(host.create), [
    [job(serves), serves],
    [databaseContainerName({ id, generation: serves }), serves],
  ])
  const snapshot = await host.beginSnapshot()
  await db('operations')
    .where({ id: snapshot.id })
    .update({ input: JSON.stringify({ volumes: { copy: first, dump: second } }) })
  const taken = await madeBy(async () => {
    const proved = await snapshot.step((steps, input) => steps.takeDatabaseSnapshot(input))
    await transaction(db, async trx => {
      await markSnapshotGood(trx, snapshot.id, proved)
      await recordSnapshotProof(trx, snapshot.id, proved)
    })
  })
  await snapshot.end()
  t.deepEqual(taken, [
    [dump(serves), second],
    [job(first), first],
    [job(first), first],
    [dump(first), second],
    [dump(first), second],
  ])
  const restore = await host.begin('restore', { snapshotId: snapshot.snapshot, volumes: { copy: kept, dump: read } })
  const restored = await madeBy(() => restore.step((steps, input) => steps.prepareRestore(input)))
  t.deepEqual(restored, [
    [job(kept), kept],
    [job(kept), kept],
    [dump(kept), read],
    [dump(kept), read],
  ])
})
