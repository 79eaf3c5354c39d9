import test from 'ava'
import { pino } from 'pino'
import { newAppId } from '../../../../policy/ids.ts'
import { sealKeys } from '../../../../policy/seal.ts'
import { watchDatabaseCopies } from '../../../../workers/host/databases/database-copies.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { makeDatabase } from '../../../kit/rows/databases.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))

/** A host of accounts with databases. */
async function scene() {
  const { db } = await database
  const hostId = `h-${newAppId()}`
  const make = rows(db)
  await make.host(hostId, { memoryMb: 1_000_000, diskMb: 100_000_000 })
  async function account(databases: number) {
    const { id: ownerId } = await make.user()
    const own = Array.from({ length: databases }, () => makeDatabase(db, keys, ownerId, { engine: 'postgres' }))
    const ids = (await Promise.all(own)).map(({ id }) => id)
    await db('databases').whereIn('id', ids).update({ host_id: hostId, provisioned_at: db.fn.now() })
    return { ownerId, ids }
  }
  return { db, hostId, account }
}

test('an account whose volumes have WAL files without an end uses half of the slots, and no other account waits for one of them', async t => {
  const { db, hostId, account } = await scene()
  const [busy, calm] = [await account(40), await account(1)]
  const looks = new Map<string, number>()
  let [concurrent, most, ended] = [0, 0, 0]
  const watch = new AbortController()
  const pointInTime = {
    async copy({ id, ownerId }: { id: string; ownerId: string }, signal: AbortSignal) {
      looks.set(id, (looks.get(id) ?? 0) + 1)
      if (ownerId !== busy.ownerId) return
      most = Math.max(most, ++concurrent)
      await new Promise(resolve => signal.addEventListener('abort', () => setTimeout(resolve, 20)))
      concurrent--
      ended++
    },
    backUp: async () => {},
  }
  const options = { db, hostId, pointInTime, sharedUid: null, log: pino({ enabled: false }), everySeconds: 0.01 }
  const watched = watchDatabaseCopies(options, watch.signal)
  await comesTrue(() => (looks.get(calm.ids[0]!) ?? 0) >= 3)
  watch.abort()
  await watched
  t.is(most, 16)
  t.is(ended, 16, 'what was under way has ended with the watch')
  t.is(looks.size, 17, 'a volume is not begun again while it is copied')
})
