import test from 'ava'
import pino from 'pino'
import { HostUnreachable } from '../../../../activities/containers/port.ts'
import { findHost } from '../../../../db/hosts/hosts.ts'
import { parseConfig } from '../../../../policy/config.ts'
import { keepDatabaseImages } from '../../../../workers/host/databases/database-images.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()

test('a host reports which images it has, and each that takes the name of another; it goes on after its engine was away', async t => {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  await rows(db).databaseHost('h1')
  for (const name of ['pinned', 'new']) await rows(db).database(ownerId, { name })
  await db('databases').where({ name: 'pinned' }).update({ image_id: 'sha256:0' })
  const { databases } = parseConfig({ DATABASE_ENGINES: 'redis' }, '/')
  let ids: Record<string, string> | null = { 'berth/redis:8': 'sha256:1' }
  const asked = { silent: 0 }
  let kept: readonly string[] = []
  const engine = {
    async imageId(image: string) {
      if (ids) return ids[image] ?? null
      asked.silent++
      throw new HostUnreachable('The engine is away.')
    },
    async removeReplacedImages(except: () => Promise<readonly string[]>) {
      kept = await except()
    },
  }
  const ending = new AbortController()
  const log = pino({ level: 'silent' })
  const reports = keepDatabaseImages({ db, engine, hostId: 'h1', databases, log, everySeconds: 0.05 }, ending.signal)
  t.teardown(async () => {
    ending.abort()
    await reports
  })
  const reported = async () => JSON.stringify((await findHost(db, 'h1'))?.database_image_ids)
  await comesTrue(async () => (await reported()) === '{"berth/redis:8":"sha256:1"}')
  ids = null
  await comesTrue(() => asked.silent > 1)
  t.is(await reported(), '{"berth/redis:8":"sha256:1"}')
  ids = { 'berth/redis:8': 'sha256:2', 'berth/redis:7': 'sha256:7' }
  await comesTrue(async () => (await reported()) === '{"berth/redis:7":"sha256:7","berth/redis:8":"sha256:2"}')
  t.deepEqual(kept, ['sha256:0'], 'what a database is to start with stays')
})
