import { mkdir, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { MiB } from '../../../lib/bytes.ts'
import { parseConfig } from '../../../policy/config.ts'
import { newId } from '../../../policy/ids.ts'
import { hostFolder, openHost } from '../../../workers/host/host-parts.ts'
import { openInstallResults, watchInstallResults } from '../../../workers/host/install-results.ts'
import { masterKey } from '../../kit/actors/api.ts'
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

test('a process without the lease of its host leaves its results alone, and counts them as reserved in any case', async t => {
  const folder = ownFolder(t)
  const config = parseConfig(
    {
      ...{ BERTH_DATA: folder, BERTH_MASTER_KEY: masterKey, HOST_NAME: `h-${newId()}`, INSTALL_CACHE_MB: '1000' },
      PACKAGE_CACHE_MB: '500',
      ...{ HOST_QUOTA: 'off', HOST_FIREWALL: 'off', DATABASE_URL: 'postgres://127.0.0.1:9/none' },
    },
    '/',
  )
  const underWay = join(hostFolder(config), 'installs/ana/half.new')
  await mkdir(dirname(underWay), { recursive: true })
  await writeFile(underWay, 'x')
  // What the host does not promise for its caches, to 100 MB: something else writes to this disk too.
  const reservedMb = async () => {
    const parts = await openHost(config, log)
    const [ofEmpty, ofFull] = [await parts.promisedDiskMb(0), await parts.promisedDiskMb(10_000 * MiB)]
    await parts.close()
    const { bavail, bsize } = await statfs(folder)
    t.true(ofFull <= (bavail * bsize) / MiB, 'what others use of this disk is promised to nobody')
    return Math.round((ofFull - ofEmpty) / 100) * 100
  }
  t.is(await reservedMb(), 1500)
  t.is(await readFile(underWay, 'utf8'), 'x')
  const options = { folder: hostFolder(config), maxMb: 1000, snapshots: snapshots(), log }
  await (await openInstallResults(options))!.close()
  t.deepEqual(await readdir(dirname(underWay)), [], 'with the lease it is removed')

  await rm(join(options.folder, 'installs'), { recursive: true })
  await writeFile(join(options.folder, 'installs'), 'no folder')
  t.is(await reservedMb(), 1500, 'also when the cache cannot be opened')
})

test('a host without a cache removes the results of an earlier one', async t => {
  const folder = ownFolder(t)
  await mkdir(join(folder, 'installs/ana'), { recursive: true })
  await writeFile(join(folder, 'installs/ana/x.zip'), 'x')
  const options = { folder, maxMb: 0, snapshots: snapshots(), log }
  t.is(await openInstallResults(options), null)
  t.deepEqual(await readdir(folder), [])
  t.is(await openInstallResults(options), null)
})
