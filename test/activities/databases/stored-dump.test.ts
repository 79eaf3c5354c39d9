import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import type { HeardDump } from '../../../activities/databases/contents.ts'
import { storeDump } from '../../../activities/databases/snapshots/stored-dump.ts'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const never = new AbortController().signal
const facts = { databaseId: 'd', name: 'n', createdAt: '2026-11-30T10:00:00.000Z', engine: 'postgres', version: '17' }

async function scene(t: ExecutionContext, put?: ObjectStore['put']) {
  const { db } = await database
  const own = ownFolder(t)
  const [folder, stored] = [join(own, 'dump'), join(own, 'store')]
  for (const path of [folder, stored]) fs.mkdirSync(path)
  const store = await filesystemStore(stored)
  if (put) store.put = put
  const said: string[] = []
  const step = async (words: string) => void said.push(words)
  const made = snapshots()
  const read = async (id: string) => {
    const file = await store.open(id)
    return made.verify(file, never).finally(() => file.close())
  }
  /** Writes half of a file, and the rest after `between`. */
  const writes = async (heard: HeardDump, between: () => Promise<void> = async () => {}) => {
    fs.writeFileSync(join(folder, '0.dump'), 'half')
    heard.begins('0.dump', true)
    await between()
    fs.appendFileSync(join(folder, '0.dump'), ' and the other')
    heard.ends('0.dump')
    await heard.complete()
  }
  return { ...{ folder, said, read, writes, step }, options: { db, store, snapshots: made } }
}

test('a dump is stored once it is complete, and proved while its digest is read', async t => {
  const { folder, read, writes, options, step, said } = await scene(t)
  let isStored = false
  let isRead = false
  const stored = await storeDump(
    options,
    { folder, facts, signal: never },
    {
      step,
      async dump(heard) {
        await writes(heard, () => sleep(50))
        t.true(isStored, 'until then it leaves the processors to what stores')
        await comesTrue(() => isRead)
        return 'its digest'
      },
      async prove(segmentId, dumped) {
        isStored = true
        const totals = await read(segmentId)
        t.is(totals.bytes, 18)
        isRead = true
        t.is(await dumped, 'its digest')
        return totals
      },
    },
  )
  t.regex(stored.sha256, /^[0-9a-f]{64}$/)
  t.deepEqual(said, [], 'its caller says what it does')
})

test('a dump that fails before it is complete fails with its reason, and afterwards when it is proved', async t => {
  const { folder, read, writes, options, step } = await scene(t)
  const reason = new Error('the engine has ended')
  const prove = async (segmentId: string, dumped: Promise<unknown>) => {
    const totals = await read(segmentId)
    await dumped
    return totals
  }
  const dumps = {
    'before it is complete': (heard: HeardDump) => writes(heard, () => Promise.reject(reason)),
    afterwards: async (heard: HeardDump) => {
      await writes(heard)
      await sleep(20)
      throw reason
    },
  }
  for (const [when, fails] of Object.entries(dumps)) {
    const dump = async (heard: HeardDump) => {
      await fails(heard)
      return null
    }
    t.is(await t.throwsAsync(storeDump(options, { folder, facts, signal: never }, { step, dump, prove })), reason, when)
    fs.rmSync(join(folder, '0.dump'))
  }
})

test('an archive that cannot be stored, or is cancelled, ends the dump before it settles', async t => {
  const full = new Error('The disk of the store is full.')
  const cancel = new AbortController()
  const cancelled = new Error('It was cancelled.')
  for (const [reason, put, signal] of [
    [full, () => Promise.reject(full), never],
    [cancelled, undefined, cancel.signal],
  ] as const) {
    const { folder, options, step, writes } = await scene(t, put)
    let hasEnded = false
    const dump = async (heard: HeardDump, until: AbortSignal) => {
      await writes(heard, async () => {
        if (reason === cancelled) cancel.abort(cancelled)
        await comesTrue(() => until.aborted)
        await sleep(20)
        hasEnded = true
      })
      return null
    }
    const prove = async (): Promise<never> => t.fail() as never
    t.is(await t.throwsAsync(storeDump(options, { folder, facts, signal }, { step, dump, prove })), reason)
    t.true(hasEnded)
  }
})
