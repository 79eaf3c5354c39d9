import test from 'ava'
import { admitsAgain, fill, fullDiskScene, survives } from '../../kit/databases/full-disk.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

// MySQL, the stand-in for MongoDB, and what a customer can do on purpose: test/long/full-disks.test.ts.
const started = testPlatform({
  settings: { DATABASE_ENGINES: 'redis,postgres', DISK_MB_PER_256MB: '128' },
})
const timeoutMs = 1_500_000

test.serial('a full disk costs redis nothing that was acknowledged', async t => {
  t.timeout(timeoutMs)
  const it = await fullDiskScene(await started, { engine: 'redis', version: '8', memory: 512, image: 'redis:8' })
  t.true(it.hasBallast())
  it.take(60)
  await survives(t, it, await fill(it.connect))
  const startedAt = await it.startedAt()
  const customer = await it.connect()
  await customer.clear!()
  t.deepEqual(await customer.numbers(), [])
  customer.end()
  // Nothing else has given room back.
  await admitsAgain(t, it)
  t.is(await it.startedAt(), startedAt, 'its deletions have not ended it')
})

test.serial('a full disk costs postgres nothing; its owner makes room by deleting', async t => {
  t.timeout(timeoutMs)
  const subject = { engine: 'postgres', version: '17', memory: 1024, image: 'postgres:17' } as const
  const it = await fullDiskScene(await started, subject)
  it.take(60)
  await survives(t, it, await fill(it.connect))
  const customer = await it.connect()
  await customer.clear!()
  t.deepEqual(await customer.numbers(), [])
  customer.end()
  it.giveBack()
  await admitsAgain(t, it)
})
