import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { newId } from '../../../policy/ids.ts'
import { openInstallResults, watchInstallResults } from '../../../workers/host/install-results.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

test('a host removes results of accounts that do not exist, and reports the size of the rest', async t => {
  const { db } = await database
  const folder = ownFolder(t)
  const options = { folder, maxMb: 64, snapshots: snapshots(), log }
  const installs = (await openInstallResults(options))!
  t.is(await openInstallResults({ ...options, maxMb: 0 }), null)
  const hostId = `h-${newId()}`
  await rows(db).host(hostId)
  const { id: ana } = await rows(db).user()
  const source = join(folder, 'source')
  await mkdir(source)
  await writeFile(join(source, 'x'), 'x')
  const { digest, bytes } = await options.snapshots.digest(source, AbortSignal.timeout(60_000))
  for (const account of [ana, 'nobody'])
    installs.keep(account, 'a'.repeat(64), { folder: source, digest, bytes, at: 1 })
  await installs.settled()
  const end = new AbortController()
  const watch = watchInstallResults({ db, installs, hostId, log, everySeconds: 0.1 }, end.signal)
  const reported = async () => (await findHost(db, hostId))?.install_cache
  await comesTrue(async () => (await reported())?.results === 1)
  t.deepEqual(await reported(), { results: 1, mb: 1, maxMb: 64 })
  t.deepEqual(await readdir(join(folder, 'installs')), [ana])
  end.abort()
  await watch

  const without = new AbortController()
  const ended = watchInstallResults({ db, installs: null, hostId, log, everySeconds: 0.1 }, without.signal)
  await comesTrue(async () => (await reported()) === null)
  without.abort()
  await ended
})

test('a cache that cannot be opened leaves the host without one', async t => {
  const folder = ownFolder(t)
  await writeFile(join(folder, 'installs'), 'no folder')
  t.is(await openInstallResults({ folder, maxMb: 64, snapshots: snapshots(), log }), null)
})
