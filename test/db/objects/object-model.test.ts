import test from 'ava'
import { runSchedules } from '../../kit/objects/object-run.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('concurrent changes of few names have a serial order: nothing finished is lost, nothing leaks, the usage is the sum', async t => {
  t.timeout(180_000)
  await runSchedules(t, (await database).url, 1000)
})
