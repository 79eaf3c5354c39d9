import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import pino from 'pino'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { disksState, watchDisks } from '../../../workers/host/disk-watch.ts'
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
