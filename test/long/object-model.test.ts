import test from 'ava'
import { runSchedules } from '../kit/objects/object-run.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

test('ten thousand schedules on few names each equal a serial order', async t => {
  t.timeout(30 * 60_000)
  await runSchedules(t, (await database).url, 10_000)
})
