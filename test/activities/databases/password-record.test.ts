import { randomBytes } from 'node:crypto'
import { statfsSync } from 'node:fs'
import test from 'ava'
import { layBallast } from '../../../activities/databases/disk-space.ts'
import { hasOtherPassword, recordPassword } from '../../../activities/databases/password-record.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import { engineVolume, takeAllRoom } from '../../kit/databases/engine-volume.ts'
import { demandRoot } from '../../kit/root.ts'

const uid = 30_000

test('which password an engine has is recorded on a full disk too, in the room of the ballast', async t => {
  demandRoot()
  const id = randomBytes(16).toString('hex')
  const { volume, remove } = await engineVolume(id, uid, 128)
  t.teardown(remove)
  await layBallast(volume)
  takeAllRoom(volume)
  t.is(statfsSync(volume).bavail, 0)
  const database = { id, generation: 1, passwordGeneration: 1, uid } as DatabaseFacts
  const volumes = { path: () => volume }
  await recordPassword(volumes, database, null)
  t.true(await hasOtherPassword(volumes, database))
  await recordPassword(volumes, database, 1)
  t.false(await hasOtherPassword(volumes, database))
})
