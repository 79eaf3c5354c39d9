import test from 'ava'
import { findHost } from '../../../../db/hosts/hosts.ts'
import { watchDisks } from '../../../../workers/host/disk-watch.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()

test('a host reports the lost disk of a database, and none of one that never served or is being deleted', async t => {
  const { db, add, hostId, volumes, options } = await watchedHost((await database).db)
  const [one] = [await add(), await add({ provisioned_at: null }), await add({ desired_state: 'deleted' })]
  const volume = `${one.id}-1`
  await volumes.ensure(volume, 16, process.getuid?.() ?? 0)
  const ending = new AbortController()
  const watch = watchDisks({ db, volumes, hostId, log: options.log, everySeconds: 0.05 }, ending.signal)
  t.teardown(async () => {
    ending.abort()
    await watch
  })
  const becomes = (state: string) => comesTrue(async () => (await findHost(db, hostId))?.protections.disks === state)
  await becomes('all present')
  await volumes.setAside(volume)
  await becomes(`BROKEN: of 1 disks 1 lost (${volume})`)
  t.pass()
})
