import test from 'ava'
import type { DiskFiller } from '../../kit/databases/disk-fillers.ts'
import { admitsAgain, fill, fullDiskScene, survives } from '../../kit/databases/full-disk.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

// MySQL, the stand-in for MongoDB, and what a customer can do on purpose: test/long/full-disks.test.ts.
const started = testPlatform({
  settings: { DATABASE_ENGINES: 'redis,postgres', DISK_MB_PER_256MB: '128' },
})
const timeoutMs = 1_500_000

test.serial('a full disk costs redis nothing that was acknowledged, once it is read-only', async t => {
  t.timeout(timeoutMs)
  const it = await fullDiskScene(await started, { engine: 'redis', version: '8', memory: 512, image: 'redis:8' })
  t.true(it.hasBallast())
  it.take(60)
  const acknowledged = await fill(it.connect)
  // Until then it admits no connection: the first command of this client is refused.
  const demandWritten = async (customer: DiskFiller) => {
    if (!(await customer.isWritten!())) throw new Error('it still waits to be written')
  }
  await it.withCustomer(demandWritten, 90, 'the ballast has made room for what was acknowledged')
  await survives(t, it, acknowledged)
  it.giveBack()
  await admitsAgain(t, it)
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
