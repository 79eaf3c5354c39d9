import test from 'ava'
import { pino } from 'pino'
import { recordHostSeen } from '../../../../db/hosts/hosts.ts'
import { pointInTimeRules } from '../../../../policy/databases/point-in-time.ts'
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
  let port = 30_000
  await make.host(hostId, { memoryMb: 1_000_000, diskMb: 100_000_000 })
  async function account(databases: number) {
    const { id: ownerId } = await make.user()
    await recordHostSeen(db, hostId)
    const own = Array.from({ length: databases }, () => makeDatabase(db, keys, ownerId, { engine: 'postgres' }))
    const ids = (await Promise.all(own)).map(({ id }) => id)
    // Each test has a host, and creations are placed on any: beyond the ports that they get.
    for (const id of ids) await db('databases').where({ id }).update({ host_id: hostId, port: port++ })
    return { ownerId, ids }
  }
  return { db, hostId, account }
}

test.serial(
  'volumes from which something was stored are looked at again at once, in turns, until there is nothing',
  async t => {
    const { db, hostId, account } = await scene()
    const [busy, calm] = [await account(40), await account(1)]
    const looks = new Map<string, number>()
    const watch = new AbortController()
    const pointInTime = {
      async copy({ id, ownerId }: { id: string; ownerId: string }) {
        looks.set(id, (looks.get(id) ?? 0) + 1)
        await new Promise(resolve => setTimeout(resolve, 5))
        return ownerId === busy.ownerId || looks.get(id)! < 3
      },
      backUp: async () => {},
    }
    const options = { db, hostId, pointInTime, sharedUid: null, log: pino({ enabled: false }), everySeconds: 3600 }
    const watched = watchDatabaseCopies(options, watch.signal)
    const least = (ids: string[]) => Math.min(...ids.map(id => looks.get(id) ?? 0))
    // Two with a file, and those of 5 s after them.
    const ofCalm = 2 + 1 + pointInTimeRules.lookSeconds / pointInTimeRules.busyLookSeconds
    await comesTrue(() => least(busy.ids) >= 5 && least(calm.ids) >= ofCalm)
    await new Promise(resolve => setTimeout(resolve, 1500))
    t.is(least(calm.ids), ofCalm)
    watch.abort()
    await watched
    t.is(looks.size, 41, 'more volumes than slots: none keeps its slot for as long as it has files')
  },
)

test.serial(
  'an account whose volumes have WAL files without an end uses half of the slots, and no other account waits for one of them',
  async t => {
    const { db, hostId, account } = await scene()
    const [busy, calm] = [await account(40), await account(1)]
    const looks = new Map<string, number>()
    let [concurrent, most, ended] = [0, 0, 0]
    const watch = new AbortController()
    const pointInTime = {
      async copy({ id, ownerId }: { id: string; ownerId: string }, signal: AbortSignal) {
        looks.set(id, (looks.get(id) ?? 0) + 1)
        if (ownerId !== busy.ownerId) return false
        most = Math.max(most, ++concurrent)
        await new Promise(resolve => signal.addEventListener('abort', () => setTimeout(resolve, 20)))
        concurrent--
        ended++
        return false
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
  },
)
