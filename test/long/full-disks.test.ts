import test from 'ava'
import { admitsAgain, fill, fullDiskScene, missingOf, survives } from '../kit/databases/full-disk.ts'
import { testPlatform } from '../kit/platform/platform.ts'

// Redis and Postgres: test/platform/databases/full-disks.test.ts.
const started = testPlatform({
  settings: { DATABASE_ENGINES: 'mongo,mysql,postgres', MONGO_STAND_IN: 'on', DISK_MB_PER_256MB: '128' },
})
const timeoutMs = 1_500_000

const engines = [
  { engine: 'mysql', version: '9', memory: 1024, image: 'mysql:9', mayMiss: 0 },
  // The stand-in, which is no MongoDB, may acknowledge what its storage refuses in that moment: one for each connection.
  { engine: 'mongo', version: '8', memory: 1024, image: 'mongo-stand-in:8', mayMiss: 4 },
] as const

for (const { mayMiss, ...subject } of engines)
  test.serial(`a full disk costs ${subject.image} nothing that was acknowledged`, async t => {
    t.timeout(timeoutMs)
    const it = await fullDiskScene(await started, subject)
    t.true(it.hasBallast())
    it.take(60)
    await survives(t, it, await fill(it.connect), mayMiss)
    it.giveBack()
    await admitsAgain(t, it)
    t.is((await it.delete()).status, 200)
  })

test.serial(
  'a database that is still filled to the last byte does not start, says so, and starts once it has room',
  async t => {
    t.timeout(timeoutMs)
    const subject = { engine: 'postgres', version: '17', memory: 1024, image: 'postgres:17' } as const
    const it = await fullDiskScene(await started, subject)
    it.take(60)
    const acknowledged = await fill(it.connect)
    await survives(t, it, acknowledged)
    const { id } = await it.row()
    it.takeAll()
    await it.kill()
    const refused = () =>
      it.platform
        .db('operations')
        .where({ target_id: id, kind: 'start', state: 'error', code: 'CONTAINER_INSUFFICIENT_DISK_SPACE' })
        .first()
    t.regex((await it.platform.until(refused, 180, 'its start is refused')).message, /disk of the database is full/)
    it.giveBack()
    await it.as.post(`${it.path}/start`)
    const there = await it.withCustomer(customer => customer.numbers(), 120, 'it serves again')
    t.deepEqual(missingOf(acknowledged, there), [])
  },
)
