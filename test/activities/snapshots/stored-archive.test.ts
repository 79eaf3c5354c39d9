import * as fs from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { ApplicationFailure } from '@temporalio/common'
import test, { type ExecutionContext } from 'ava'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { SnapshotCorrupt } from '../../../activities/snapshots/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { storeArchive } from '../../../activities/snapshots/stored-archive.ts'
import { ownFolder } from '../../kit/folders.ts'
import { requestOf } from '../../kit/hosts/snapshots.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

async function scene(t: ExecutionContext, change: (body: Buffer) => Buffer = same => same) {
  const { db } = await database
  const folder = ownFolder(t)
  const [files, stored] = [join(folder, 'files'), join(folder, 'store')]
  for (const path of [files, stored]) fs.mkdirSync(path)
  fs.writeFileSync(join(files, 'dump'), 'a dump '.repeat(10_000))
  const real = await filesystemStore(stored)
  const store: ObjectStore = {
    ...real,
    open: real.open.bind(real),
    async put(id, body, options) {
      return real.put(id, Readable.from([change(await buffer(body))]), options)
    },
  }
  const said: string[] = []
  const step = async (words: string) => void said.push(words)
  const parts = { db, store, snapshots: snapshots() }
  const stateOf = async (id: string) => (await db('segments').where({ id }).first())?.state
  return {
    store: (read?: Parameters<typeof storeArchive>[2]['read']) =>
      storeArchive(parts, requestOf(files), { step, ...(read && { read }) }),
    said,
    stateOf,
  }
}

/** Another attempt may be stored well. */
const isRetried = (t: ExecutionContext, error: unknown) => {
  t.true(error instanceof ApplicationFailure)
  t.like(error as ApplicationFailure, { type: 'SNAPSHOT_FAILED', nonRetryable: false })
}

test('an archive that the store has changed is no snapshot', async t => {
  const flipped = (body: Buffer) => Buffer.from(body.map((byte, at) => (at === 60 ? byte ^ 1 : byte)))
  const { store, said } = await scene(t, flipped)
  isRetried(t, await t.throwsAsync(store()))
  t.deepEqual(said, ['copying files', 'reading the archive back'])
})

test('a caller that reads the archive itself decides whether it is a snapshot, and nothing reads it before', async t => {
  const { store, said, stateOf } = await scene(t)
  const segments: string[] = []
  const whole = await store()
  const totals = { files: 1, bytes: 70_000, digest: whole.digest, pausedMs: 0 }
  said.length = 0
  const good = await store(async id => {
    segments.push(id)
    return totals
  })
  t.like(good, { segmentId: segments[0]!, digest: whole.digest })
  t.deepEqual(said, ['copying files'])

  for (const read of [
    async (): Promise<never> => {
      throw new SnapshotCorrupt('A byte is wrong.')
    },
    async () => ({ ...totals, digest: 'f'.repeat(64) }),
  ])
    isRetried(
      t,
      await t.throwsAsync(
        store(async id => {
          segments.push(id)
          return read()
        }),
      ),
    )
  const own = new Error('other contents')
  t.is(await t.throwsAsync(store(() => Promise.reject(own))), own)
  t.deepEqual(await Promise.all(segments.map(stateOf)), ['drawn', 'dying', 'dying'])
})
