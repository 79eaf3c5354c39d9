import { mock } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { withLease } from '../../../api/uploads/blob-leases.ts'
import { endSlotLease, takeSlotLease } from '../../../db/slot-leases.ts'
import { leaseSeconds } from '../../../policy/leases.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('a renewal in progress does not restore a lease that has ended, however it ended', async t => {
  const { db } = await database
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  for (const over of [false, true]) {
    const subject = `part/${over}`
    const lease = (await takeSlotLease(db, subject, 1))!
    let [asked, answered] = [0, 0]
    // The renewal is what asks first, and its question arrives late.
    const client = {
      async acquireConnection() {
        if (++asked === 1) await sleep(200)
        return db.client.acquireConnection()
      },
      releaseConnection(connection: unknown) {
        answered++
        return db.client.releaseConnection(connection)
      },
    }
    await withLease({ db: { client } } as never, lease, async held => {
      mock.timers.tick((leaseSeconds.body / 3) * 1000)
      if (over) await endSlotLease(db, lease)
      held.isEnded = over
    })
    await comesTrue(() => asked > 0 && answered === asked)
    t.deepEqual(await db('blob_leases').where({ subject }), [], subject)
  }
})
