import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import pino from 'pino'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { cachedBytes, disksState, watchDiskPromise, watchDisks } from '../../../workers/host/disk-watch.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('disks that are lost or read-only are reported with some of the applications', t => {
  t.is(disksState(7, new Map()), 'all present')
  const faults = new Map<string, 'lost' | 'read-only'>([...'abcd'].map(id => [id, 'lost']))
  t.is(disksState(7, faults.set('e', 'read-only')), 'BROKEN: of 7 disks 4 lost (a, b, c and others), 1 read-only (e)')
})

test('a host reports a disk that is lost, and its return; a missing disk without a release is not reported', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const user = await make.user()
  const { app } = await make.app(user.id)
  await make.app(user.id)
  await db('apps').where({ id: app.id }).update({ release: 1 })
  const root = mkdtempSync(join(tmpdir(), 'berth-disks-'))
  const volumes = folderVolumes(root)
  await volumes.ensure(app.id, 16, 10_001)
  const ending = new AbortController()
  const watch = watchDisks(
    { db, volumes, hostId: 'h1', log: pino({ level: 'silent' }), everySeconds: 0.05 },
    ending.signal,
  )
  t.teardown(async () => {
    ending.abort()
    await watch
    rmSync(root, { recursive: true })
  })
  const becomes = (state: string) => comesTrue(async () => (await findHost(db, 'h1'))?.protections.disks === state)
  await becomes('all present')
  await volumes.setAside(app.id)
  await becomes(`BROKEN: of 1 disks 1 lost (${app.id})`)
  await volumes.bringBack(app.id)
  await becomes('all present')
  t.pass()
})

test('a host records what it promises of its disk when that has changed by a step, and what is placed stays', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h2', { diskMb: 50_000 })
  const log = pino({ level: 'silent' })
  const looks = [50_100, new Error('The disk cannot be looked at.'), 49_500, 20_000, 20_100]
  let seen = 0
  const promisedDiskMb = async () => {
    const now = looks[Math.min(seen++, looks.length - 1)]!
    if (now instanceof Error) throw now
    if (now === 20_000) t.is((await findHost(db, 'h2'))?.disk_mb, 50_000, 'what lasts a moment moves nothing')
    return now
  }
  const ending = new AbortController()
  const terms = { db, hostId: 'h2', log, recordedMb: 50_000, promisedDiskMb, everySeconds: 0.01 }
  const watch = watchDiskPromise(terms, ending.signal)
  await comesTrue(() => seen > looks.length + 1)
  ending.abort()
  await watch
  t.is((await findHost(db, 'h2'))?.disk_mb, 20_000)
})

test('the size of the caches of builds counts even while one does not answer', async t => {
  const counts = [null, { bytes: 5 }, new Error('It does not answer.'), null]
  const packages = {
    counts: async () => {
      const now = counts.shift()
      if (now instanceof Error) throw now
      return now as never
    },
  }
  const installs = { size: () => ({ entries: 1, bytes: 100, maxBytes: 1000 }) }
  const cached = cachedBytes(installs, packages)
  for (const bytes of [100, 105, 105, 105]) t.is(await cached(), bytes)
  t.is(await cachedBytes(null, { counts: async () => null })(), 0)
})
