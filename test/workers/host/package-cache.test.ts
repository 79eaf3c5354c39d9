import { mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import type { PackageCacheProcess } from '../../../activities/packages/process.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { newId } from '../../../policy/ids.ts'
import { watchPackages } from '../../../workers/host/package-cache.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

test('a host reports what its cache of packages holds and has done, and why builds cannot use it', async t => {
  const { db } = await database
  const hostId = `h-${newId()}`
  await rows(db).host(hostId)
  let counts: PackageCacheProcess['counts'] = async () => null
  let fault: string | null = null
  const packages = { counts: () => counts(), fault: () => fault } as PackageCacheProcess
  const end = new AbortController()
  const options = { db, packages, maxMb: 100, hostId, folder: ownFolder(t), log, everySeconds: 0.05 }
  const watch = watchPackages(options, end.signal)
  const reported = async () => (await findHost(db, hostId))?.builds.packages
  await comesTrue(async () => /no build has used/.test((await reported())?.state ?? ''))
  counts = async () => ({ bytes: 1, entries: 2, hits: 3, downloads: 4, passedOn: 5, requests: 6, troubles: 7 })
  await comesTrue(async () => /with 2 files in 1 MB; since its start 3 archives/.test((await reported())?.state ?? ''))
  t.is((await reported())?.remedy, null)
  counts = async () => Promise.reject(new Error('It does not answer.'))
  await comesTrue(async () => /WHICH DOES NOT ANSWER/.test((await reported())?.state ?? ''))
  fault = 'the address is in use'
  await comesTrue(async () => /CANNOT USE: the address is in use/.test((await reported())?.state ?? ''))
  t.regex((await reported())?.remedy ?? '', /PACKAGE_CACHE_MB=0/)
  end.abort()
  await watch
})

test('a host without a cache of packages removes those of an earlier one', async t => {
  const { db } = await database
  const hostId = `h-${newId()}`
  await rows(db).host(hostId)
  const folder = ownFolder(t)
  await mkdir(join(folder, 'packages'))
  await writeFile(join(folder, 'packages', 'x'), 'x')
  const end = new AbortController()
  const packages = { counts: async () => null, fault: () => null } as unknown as PackageCacheProcess
  const watch = watchPackages({ db, packages, maxMb: 0, hostId, folder, log, everySeconds: 0.05 }, end.signal)
  await comesTrue(
    async () => (await findHost(db, hostId))?.builds.packages?.state === 'no cache: PACKAGE_CACHE_MB is 0',
  )
  await t.throwsAsync(stat(join(folder, 'packages')), { code: 'ENOENT' })
  end.abort()
  await watch
})
