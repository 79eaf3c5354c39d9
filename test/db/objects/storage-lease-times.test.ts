import { once } from 'node:events'
import { mock } from 'node:test'
import test from 'ava'
import { StorageQuota } from '../../../db/objects/storage-quota.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

/** Writes whose objects are not limited. */
const uncounted = { objects: 0, maxObjects: Number.POSITIVE_INFINITY }

const database = testDatabase()

/** Time goes by for the process; Postgres has its own clock. */
function passes(seconds: number): void {
  for (let passed = 0; passed < seconds; passed += 5) mock.timers.tick(5000)
}

test.serial('the lease of a long write is renewed, and an unused slice ends after 10 s', async t => {
  t.timeout(30_000)
  const { db } = await database
  const [small, large] = [(await rows(db).user()).id, (await rows(db).user()).id]
  mock.timers.enable({ apis: ['setInterval', 'Date'], now: Date.now() })
  t.teardown(() => mock.timers.reset())
  const quota = new StorageQuota(db)
  const leases = (ownerId: string) => db('quota_leases').where({ owner_id: ownerId })
  const isLong = db.raw(`expires_at > now() + interval '100 s'`)
  const [started, held] = [new AbortController(), new AbortController()]
  const writing = quota.charging({ ownerId: small, bytes: 80, limit: 100, ...uncounted }, async () => {
    started.abort()
    await once(held.signal, 'abort')
  })
  if (!started.signal.aborted) await once(started.signal, 'abort')
  await quota.charging({ ownerId: large, bytes: 80, limit: 1024 ** 4, ...uncounted }, async () => {})
  t.is((await leases(large)).length, 1)
  await leases(small).update({ expires_at: db.raw(`now() + interval '20 s'`) })

  passes(5)
  t.is((await leases(large)).length, 1)
  passes(10)
  await comesTrue(async () => (await leases(large)).length === 0)
  passes(40)
  await comesTrue(async () => (await leases(small).where(isLong)).length === 1)
  t.is((await leases(small)).length, 1)
  held.abort()
  await writing
  t.deepEqual(await leases(small), [])
})
