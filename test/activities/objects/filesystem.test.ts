import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readlink, rm, statfs, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import test from 'ava'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import { segmentPath } from '../../../activities/objects/meter.ts'
import type { BorrowedBody, ObjectStore } from '../../../activities/objects/port.ts'
import { openObjectStore } from '../../../activities/objects/select.ts'
import { newId } from '../../../policy/ids.ts'
import { objectStoreContract } from '../../contracts/object-store.ts'
import { bodyOf, bytesOf, noise } from '../../kit/bodies.ts'
import { comesTrue } from '../../kit/comes-true.ts'

const run = promisify(execFile)
const base = await mkdtemp(join(tmpdir(), 'berth-objects-'))
const folder = join(base, 'store')
const mount = join(base, 'mount')
const child = [
  '--import',
  import.meta.resolve('tsx'),
  fileURLToPath(new URL('../../kit/children/put-body.ts', import.meta.url)),
]
let store: ObjectStore

test.before(async () => {
  store = await openObjectStore({ kind: 'filesystem', folder })
})

test.after.always(async () => {
  await run('umount', [mount]).catch(() => {})
  await rm(base, { recursive: true, force: true })
})

objectStoreContract(
  test,
  () => store,
  () => readdir(folder, { recursive: true }),
)

test('a process killed during a put leaves no body, and its temporary file is removed at the first start after an hour', async t => {
  const killed = join(base, 'killed')
  const id = newId()
  const process = spawn(globalThis.process.execPath, [...child, killed, id, '100', '5'], { stdio: 'inherit' })
  const exited = once(process, 'exit')
  const temporary = async () => readdir(join(killed, 'tmp')).catch(() => [])
  for (let tries = 0; (await temporary()).length === 0 && tries < 500; tries++) await wait(20)
  process.kill('SIGKILL')
  await exited
  t.is((await temporary()).length, 1)
  const untouched = await filesystemStore(killed)
  t.is((await temporary()).length, 1, 'another process may still be writing to a young file')
  t.is(await untouched.head(id), null)
  const written = async (minutesAgo: number) => {
    const at = new Date(Date.now() - minutesAgo * 60_000)
    for (const name of await temporary()) await utimes(join(killed, 'tmp', name), at, at)
  }
  await written(50)
  await filesystemStore(killed)
  t.is((await temporary()).length, 1)
  await written(61)
  await filesystemStore(killed)
  t.deepEqual(await temporary(), [])
})

test('files of a killed process are removed even while others use the store', async t => {
  const used = join(base, 'used')
  const patient = await filesystemStore(used)
  const hasty = await filesystemStore(used, 100)
  await writeFile(join(used, 'tmp', 'left'), '')
  await wait(200)
  await patient.put(newId(), Readable.from('body'))
  t.deepEqual(await readdir(join(used, 'tmp')), ['left'], 'within its time')
  await hasty.put(newId(), Readable.from('body'))
  await comesTrue(async () => (await readdir(join(used, 'tmp'))).length === 0)
})

/** Open files of this store in this process. */
async function openBodies(): Promise<string[]> {
  const fds = await readdir('/proc/self/fd')
  const paths = await Promise.all(fds.map(fd => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return paths.filter(path => path.startsWith(join(base, 'lending')))
}

test('a borrowed body uses two buffers whatever its size, and closes its file when it is read, abandoned or not read', async t => {
  const lending = await filesystemStore(join(base, 'lending'))
  const id = newId()
  await lending.put(id, bodyOf(noise(9_000_000)))
  const buffers = new Set<ArrayBufferLike>()
  for await (const piece of await lending.lend(id)) buffers.add(piece.buffer)
  t.is(buffers.size, 2)
  for await (const _ of await lending.lend(id)) break
  const unwanted = await lending.lend(id)
  t.is((await openBodies()).length, 1)
  await unwanted.destroy()
  t.deepEqual(await openBodies(), [])
})

// Serial: borrowed files are counted in the whole process.
test.serial(
  'of many loans at once the later ones take small pieces, and large ones again when the others are over',
  async t => {
    const id = newId()
    const bytes = noise(2_500_000)
    await store.put(id, bodyOf(bytes))
    const pieceOf = async (lent: BorrowedBody) => {
      for await (const piece of lent) return piece.length
      return 0
    }
    const many = await Promise.all(Array.from({ length: 40 }, () => store.lend(id)))
    const last = many.pop()!
    const read: Buffer[] = []
    for await (const piece of last) read.push(Buffer.from(piece))
    t.true(read.every(piece => piece.length <= 64 * 1024))
    t.true(Buffer.concat(read).equals(bytes))
    t.is(await pieceOf(many[0]!), 1024 * 1024)
    for (const lent of many) await lent.destroy()
    t.is(await pieceOf(await store.lend(id)), 1024 * 1024)
  },
)

test('a borrowed body that is truncated meanwhile ends with an error', async t => {
  const id = newId()
  await store.put(id, bodyOf(noise(9_000_000)))
  const read = async () => {
    for await (const _ of await store.lend(id)) await truncate(join(folder, segmentPath(id)), 1_000_000)
  }
  await t.throwsAsync(read(), { message: /ended before its byte/ })
})

test('a body of any size costs little memory', async t => {
  const { stdout } = await run(process.execPath, [...child, join(base, 'large'), newId(), '512', '0'])
  t.true(Number(stdout) < 64 * 1024 ** 2, `grew by ${stdout} bytes`)
})

test('a full disk refuses one put, leaves nothing of it, and the store keeps working', async t => {
  await mkdir(mount)
  await writeFile(join(base, 'disk'), '')
  await truncate(join(base, 'disk'), 8 * 1024 ** 2)
  await run('mkfs.ext4', ['-q', '-O', '^has_journal', join(base, 'disk')])
  await run('mount', ['-o', 'loop', join(base, 'disk'), mount])
  const small = await filesystemStore(mount)
  const [kept, refused, next] = [newId(), newId(), newId()]
  const bytes = noise(1_000_000)
  await small.put(kept, bodyOf(bytes))
  await t.throwsAsync(small.put(refused, bodyOf(noise(20_000_000))), { code: 'ENOSPC' })
  t.deepEqual(await readdir(join(mount, 'tmp')), [])
  t.is(await small.head(refused), null)
  await small.put(next, bodyOf(bytes))
  t.true((await bytesOf(await small.get(kept))).equals(bytes))
})

test('nothing is put on a disk that is nearly full, and everything as soon as it has room', async t => {
  const [disk, place] = [join(base, 'low-disk'), join(base, 'low')]
  await mkdir(place)
  await writeFile(disk, '')
  await truncate(disk, 32 * 1024 ** 2)
  await run('mkfs.ext4', ['-q', disk])
  await run('mount', ['-o', 'loop', disk, place])
  t.teardown(() => run('umount', [place]))
  const low = await filesystemStore(place)
  const filler = join(place, 'filler')
  const { bavail, bsize } = await statfs(place)
  await writeFile(filler, noise(bavail * bsize))
  const id = newId()
  // What is left is reserved for root, so a write by itself would succeed.
  await t.throwsAsync(low.put(id, bodyOf(noise(1000))), { code: 'ENOSPC' })
  t.deepEqual([await low.head(id), await readdir(join(place, 'tmp'))], [null, []])
  await rm(filler)
  await low.put(id, bodyOf(noise(1000)))
  t.deepEqual(await low.head(id), { size: 1000 })
})
