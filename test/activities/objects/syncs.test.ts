import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { DiskSyncs } from '../../../activities/objects/disk-syncs.ts'
import { filesystemStore, sharedFolderSync } from '../../../activities/objects/filesystem.ts'
import { MiB } from '../../../lib/bytes.ts'
import { storeSyncs } from '../../../policy/objects/store-limits.ts'
import { threadPool } from '../../../workers/supervisor/thread-pool.ts'
import { bodyOf } from '../../kit/bodies.ts'
import { comesTrue } from '../../kit/comes-true.ts'

test('callers during a sync of a folder share the next sync; folders do not wait for each other', async t => {
  const started: string[] = []
  const ends: ((error?: Error) => void)[] = []
  const sync = sharedFolderSync(path => {
    started.push(path)
    return new Promise((resolve, reject) => ends.push(error => (error ? reject(error) : resolve())))
  })
  const first = [sync('a'), sync('a'), sync('b')]
  await Promise.resolve()
  await new Promise(setImmediate)
  t.deepEqual(started, ['a', 'b'])
  const second = [sync('a'), sync('a')]
  await new Promise(setImmediate)
  t.deepEqual(started, ['a', 'b'])
  ends[0]!(new Error('disk'))
  await t.throwsAsync(first[0]!, { message: 'disk' })
  await t.throwsAsync(first[1]!, { message: 'disk' })
  await new Promise(setImmediate)
  t.deepEqual(started, ['a', 'b', 'a'])
  ends[1]!()
  ends[2]!()
  await Promise.all([first[2], ...second])
  const third = sync('a')
  await new Promise(setImmediate)
  ends[3]!()
  await third
  t.deepEqual(started, ['a', 'b', 'a', 'a'])
})

test('no put into a new folder is answered before the names of the folder and of those above it are synced', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-syncs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const synced: string[] = []
  let release = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  let isFailing = false
  const store = await filesystemStore(folder, undefined, async path => {
    synced.push(path)
    if (path === join(folder, 'o/ab')) await held
    if (isFailing) throw new Error('disk')
  })
  const answered: string[] = []
  const put = async (id: string) => {
    await store.put(id, bodyOf(Buffer.from('x')))
    answered.push(id)
  }
  const puts = [put('abcd000000000001')]
  await comesTrue(() => synced.includes(join(folder, 'o/ab')))
  puts.push(put('abcd000000000002'))
  await comesTrue(async () => (await store.head('abcd000000000002')) !== null)
  await new Promise(resolve => setTimeout(resolve, 100))
  t.deepEqual(answered, [])
  release()
  await Promise.all(puts)
  t.deepEqual(answered.length, 2)
  for (const parent of ['', 'o', 'o/ab', 'o/ab/cd']) t.true(synced.includes(join(folder, parent)), parent)
  synced.length = 0
  await put('abcd000000000003')
  t.deepEqual(synced, [join(folder, 'o/ab/cd')], 'the names are synced once')
  isFailing = true
  await t.throwsAsync(put('ef01000000000001'), { message: 'disk' })
  t.is(await store.head('ef01000000000001'), null)
  isFailing = false
  synced.length = 0
  await put('ef01000000000002')
  t.true(synced.includes(join(folder, 'o/ef')), 'a failed sync is tried again')
})

test('a deletion is answered when it is durable, also that of a body which is missing', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-syncs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  let synced: string[] = []
  let held = Promise.resolve()
  const store = await filesystemStore(folder, undefined, async path => {
    synced.push(path)
    await held
  })
  const id = 'abcd000000000001'
  await store.put(id, bodyOf(Buffer.from('x')))
  synced = []
  let release = () => {}
  held = new Promise(resolve => {
    release = resolve
  })
  let isAnswered = false
  const deletion = store.delete(id).then(() => {
    isAnswered = true
  })
  await comesTrue(() => synced.includes(join(folder, 'o/ab/cd')))
  t.deepEqual([isAnswered, await store.head(id)], [false, null])
  release()
  await deletion
  synced = []
  await store.delete(id)
  t.deepEqual(synced, [join(folder, 'o/ab/cd')])
})

test.serial('while a disk holds the syncs of folders of many puts, threads are left, and bodies are read', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-syncs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const ends: (() => void)[] = []
  let isHeld = false
  const store = await filesystemStore(folder, undefined, async () => {
    if (isHeld) await new Promise<void>(resolve => ends.push(resolve))
  })
  await store.put('0000000000000001', bodyOf(Buffer.from('x')))
  isHeld = true
  const { atOnce } = storeSyncs.folders
  const ids = Array.from({ length: 2 * atOnce }, (_, n) => `${(4096 + n).toString(16)}000000000001`)
  const puts = ids.map(id => store.put(id, bodyOf(Buffer.from('y'))))
  await comesTrue(async () => (await Promise.all(ids.map(id => store.head(id)))).every(head => head !== null))
  await comesTrue(() => ends.length >= atOnce)
  await turn()
  t.is(ends.length, atOnce)
  t.is((await store.read('0000000000000001', 0, 1)).toString(), 'x')
  isHeld = false
  for (const end of ends) end()
  await Promise.all(puts)
})

/** Files whose syncs end when the test says so. */
function heldFiles() {
  const started: string[] = []
  const ends: (() => void)[] = []
  const file = (name: string) => ({
    datasync: () => {
      started.push(name)
      return new Promise<void>(resolve => ends.push(resolve))
    },
  })
  return { started, ends, file }
}

const turn = () => new Promise(setImmediate)

test.serial(
  'large bodies of one account that end together leave threads to others, and small ones do not wait for them',
  async t => {
    const { started, ends, file } = heldFiles()
    const end = async (owner: string, bytes: number) => {
      const syncs = new DiskSyncs(owner)
      await syncs.count(file(owner), bytes)
      await syncs.end(file(owner))
    }
    const all = [...Array.from({ length: 6 }, () => end('ana', 5 * MiB)), end('bob', 5 * MiB), end('ana', MiB)]
    await turn()
    t.deepEqual(started.toSorted(), ['ana', 'ana', 'ana', 'bob'])
    while (started.length < all.length) {
      for (const done of ends.splice(0)) done()
      await turn()
    }
    for (const done of ends.splice(0)) done()
    await Promise.all(all)
    const { large, small, folders } = storeSyncs
    t.true(large.atOnce + small.atOnce + folders.atOnce <= Number(threadPool.UV_THREADPOOL_SIZE) - 4)
    const threads = `UV_THREADPOOL_SIZE=${threadPool.UV_THREADPOOL_SIZE} `
    t.true((await readFile(new URL('../../../Dockerfile', import.meta.url), 'utf8')).includes(threads))
  },
)

test.serial('a large body is synced while it arrives, one sync at a time', async t => {
  const { started, ends, file } = heldFiles()
  const syncs = new DiskSyncs('ana')
  const piece = storeSyncs.everyBytes / 4
  const due: boolean[] = []
  for (let n = 0; n < 5; n++) due.push(await syncs.count(file('body'), piece))
  t.deepEqual(due, [false, false, false, false, true])
  await turn()
  t.is(started.length, 1)
  for (let n = 0; n < 3; n++) await syncs.count(file('body'), piece)
  let hasGoneOn = false
  const next = syncs.count(file('body'), piece).then(() => {
    hasGoneOn = true
  })
  await turn()
  t.deepEqual([started.length, hasGoneOn], [1, false])
  ends[0]!()
  await next
  const end = syncs.end(file('body'))
  await turn()
  t.is(started.length, 2)
  ends[1]!()
  await turn()
  t.is(started.length, 3)
  ends[2]!()
  await end
})
