import { execFile } from 'node:child_process'
import {
  chown,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import test from 'ava'
import { ZipFile } from 'yazl'
import { ArchiveRefused } from '../../../activities/archives/port.ts'
import { archives } from '../../../activities/archives/process.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { archiveBench, owner } from '../../kit/archives.ts'
import { bytesOf, noise } from '../../kit/bodies.ts'
import { heavy, withPackages, zeros } from '../../kit/bombs.ts'
import { appZip, zipOf, zipOfEntries } from '../../kit/zips.ts'

const run = promisify(execFile)
const bench = await archiveBench()
const pool = archives({ waitMs: Number.POSITIVE_INFINITY, spareAfterMs: 0 })

test.after.always(async () => {
  await pool.close()
  await run('umount', [join(bench.base, 'mount')]).catch(() => {})
  await bench.close()
})

const legal: Record<string, [Buffer, string[]]> = {
  'zip64 fields and end record': [
    zipOf({ a: { data: 'x', zip64: true }, b: { data: 'y', zip64: true } }, { zip64: true }),
    ['a', 'b'],
  ],
  'a comment and a counted prefix': [
    zipOf({ a: 'x' }, { comment: Buffer.from('hello'), prefix: Buffer.from('#!/bin/sh\n') }),
    ['a'],
  ],
  'names in code page 437': [
    zipOfEntries([{ path: Buffer.from([0x82, 0x2e, 0x6a, 0x73]), data: 'x', madeBy: 0 }]),
    ['é.js'],
  ],
  'names in UTF-8, declared or not': [
    zipOfEntries([
      { path: 'é', data: 'x' },
      { path: Buffer.from('世'), data: 'y', flags: 0 },
    ]),
    ['é', '世'],
  ],
  'names that differ in case only': [zipOf({ 'A.js': '1', 'a.js': '2' }), ['A.js', 'a.js']],
  'backslashes as separators': [zipOf({ 'dir\\sub\\a.txt': 'x' }), ['dir', 'dir/sub', 'dir/sub/a.txt']],
  'a zip in a zip': [zipOf({ 'inner.zip': zeros(20) }), ['inner.zip']],
  'folders, empty ones too': [
    zipOf({ 'empty/': '', 'd/': '', 'd/a': 'x', './e/f': 'y' }),
    ['d', 'd/a', 'e', 'e/f', 'empty'],
  ],
  'links and devices in dropped folders': [
    zipOf({ a: 'x', 'node_modules/.bin/x': { data: '/etc/passwd', mode: 0o120777 }, '.git/fifo': { mode: 0o010644 } }),
    ['a'],
  ],
  'nine MiB of zeros': [zeros(9), ['zeros.bin']],
}

for (const [name, [zip, expected]] of Object.entries(legal))
  test(`legal: ${name}`, async t => {
    const { error, paths } = await bench.unpack(zip, pool)
    t.is(error, null)
    t.deepEqual(paths, expected.toSorted())
    t.like(await bench.inspect(zip, pool), { ok: false, code: 'MISSING_CONFIG' })
  })

test('legal: an archive that was written as a stream, with sizes after the data', async t => {
  const stream = new ZipFile()
  const content = noise(300_000)
  stream.addReadStreamLazy('large.bin', done => done(null, Readable.from([content])))
  stream.addBuffer(Buffer.from('x'), 'dir/small', { forceZip64Format: true })
  stream.end()
  const { folder, error } = await bench.unpack(await bytesOf(Readable.from(stream.outputStream)), pool)
  t.is(error, null)
  t.true((await readFile(join(folder, 'large.bin'))).equals(content))
})

test('an inspection returns the content of the archive', async t => {
  const found = await bench.inspect(appZip({ 'lib/a.js': noise(300_000) }, { SUBDOMAIN: 'shop', MEMORY: 512 }), pool)
  t.like(found, {
    ok: true,
    entries: 4,
    config: { displayName: 'hello', subdomain: 'shop', memoryMb: 512, language: 'javascript' },
  })
})

test('the configuration file is found by name, in order, at the root', async t => {
  const zip = zipOf({ 'x/berth.app': 'DISPLAY_NAME=deep', 'other.cfg': 'DISPLAY_NAME=other', 'index.js': '' })
  t.like(await bench.inspect(zip, pool), { ok: false, code: 'MISSING_CONFIG' })
  t.like(await bench.inspect(zip, pool, ['other.cfg']), { ok: false, code: 'MISSING_MAIN' })
  const both = zipOf({ 'berth.config': 'DISPLAY_NAME=', 'berth.app': 'DISPLAY_NAME=first' })
  t.like(await bench.inspect(both, pool), { ok: false, code: 'MISSING_MAIN' })
  t.like(await bench.inspect(appZip({ 'berth.app': `#${' '.repeat(70_000)}` }), pool), {
    ok: false,
    code: 'INVALID_FILE',
  })
})

test('a zip of the folder instead of its content is reported as such', async t => {
  const zip = zipOf({ 'my-app/berth.app': 'DISPLAY_NAME=x', 'my-app/index.js': '' })
  const inspection = await bench.inspect(zip, pool)
  t.like(inspection, { ok: false, code: 'MISSING_CONFIG' })
  t.regex(JSON.stringify(inspection), /There is my-app\/berth\.app: zip the content of that folder/)
})

test('MAIN in a dropped folder is missing', async t => {
  const zip = appZip({ 'target/index.js': 'x' }, { MAIN: 'target/index.js' })
  t.like(await bench.inspect(zip, pool), { ok: false, code: 'INVALID_MAIN' })
})

test('60,000 files of packages are dropped and do not count', async t => {
  t.like(await bench.inspect(withPackages(60_000), pool), { ok: true, entries: 3 })
})

test('files belong to the application, keep their permissions and no special bit', async t => {
  const zip = zipOf({
    'run.sh': { data: 'x', mode: 0o104755 },
    plain: 'y',
    'shared/': { mode: 0o043777 },
    secret: { data: 'z', mode: 0o100400 },
    'from-windows': { data: 'w', madeBy: 0, mode: 0 },
  })
  const { folder, error } = await bench.unpack(zip, pool)
  t.is(error, null)
  const modes = { 'run.sh': 0o755, plain: 0o644, shared: 0o777, secret: 0o600, 'from-windows': 0o644 }
  for (const [name, mode] of Object.entries(modes)) {
    const found = await stat(join(folder, name))
    t.is(found.mode & 0o7777, mode, name)
    t.is(found.uid, owner.uid)
    t.is(found.gid, owner.gid)
  }
})

test('an archive of Berth may contain links that stay inside', async t => {
  const link = (target: string) => ({ data: target, mode: 0o120777 })
  const { folder, error, paths } = await bench.unpack(zipOf({ 'a/b': 'x', 'a/l': link('../c'), c: 'y' }), pool, {
    own: true,
  })
  t.is(error, null)
  t.deepEqual(paths, ['a', 'a/b', 'a/l', 'c'])
  t.is(await readlink(join(folder, 'a/l')), '../c')
  for (const target of ['/etc', '../../x', 'a/../../x', '']) {
    const refused = await bench.unpack(zipOf({ 'a/b': 'x', 'a/l': link(target) }), pool, { own: true })
    t.true(refused.error instanceof ArchiveRefused)
    t.deepEqual(refused.paths, [])
  }
})

test('a folder that is a link, is not empty or has another owner stays untouched', async t => {
  await writeFile(join(bench.base, 'a.zip'), zipOf({ a: 'x' }))
  const file = await open(join(bench.base, 'a.zip'))
  const root = join(bench.base, 'roots')
  const full = join(bench.base, 'full')
  for (const path of [root, full]) await mkdir(path)
  await writeFile(join(full, 'kept'), 'kept')
  await chown(full, owner.uid, owner.gid)
  await symlink(root, join(bench.base, 'link'))
  await t.throwsAsync(pool.unpack(file, root, owner), { message: /does not belong/ })
  await t.throwsAsync(pool.unpack(file, full, owner), { message: /not empty/ })
  await t.throwsAsync(pool.unpack(file, join(bench.base, 'link'), owner), { code: 'ENOTDIR' })
  t.deepEqual(await readdir(root), [])
  t.is(await readFile(join(full, 'kept'), 'utf8'), 'kept')
  await file.close()
})

test('a full disk is reported as such, and the folder is empty again', async t => {
  const [disk, mount] = [join(bench.base, 'disk'), join(bench.base, 'mount')]
  await mkdir(mount)
  await writeFile(disk, '')
  await truncate(disk, 8 * 1024 ** 2)
  await run('mkfs.ext4', ['-q', '-O', '^has_journal', disk])
  await run('mount', ['-o', 'loop', disk, mount])
  const folder = join(mount, 'files')
  await mkdir(folder)
  await chown(folder, owner.uid, owner.gid)
  await writeFile(join(bench.base, 'large.zip'), zipOf({ a: noise(1_000_000), 'b/c': noise(10_000_000) }))
  const file = await open(join(bench.base, 'large.zip'))
  await t.throwsAsync(pool.unpack(file, folder, owner), { instanceOf: NoSpaceLeft })
  t.deepEqual(await readdir(folder), [])
  await file.close()
})

test('two archives are inspected concurrently; a caller that waits too long gets UPLOAD_BUSY', async t => {
  const small = archives({ atOnce: 2, waitMs: 100 })
  const zip = heavy(20)
  // Opened before, so that they are requested together.
  const files = await Promise.all([1, 2, 3].map(() => bench.fileOf(zip)))
  const outcomes = await Promise.allSettled(
    files.map((file, n) => small.inspect(file, { account: `${n}`, configNames: [], config: 'required' })),
  )
  for (const file of files) await file.close()
  const busy = outcomes.filter(outcome => outcome.status === 'rejected').map(outcome => outcome.reason)
  t.deepEqual(
    busy.map(({ code, retryAfterSeconds }) => [code, retryAfterSeconds]),
    [['UPLOAD_BUSY', 5]],
  )
  await small.close()
})

test('an account with many archives at the limit delays no other account, and each of its archives is inspected', async t => {
  const fair = archives({ atOnce: 2, waitMs: Number.POSITIVE_INFINITY })
  const [heavyPath, smallPath] = [join(bench.base, 'heavy.zip'), join(bench.base, 'small.zip')]
  await writeFile(heavyPath, heavy(8))
  await writeFile(smallPath, appZip())
  const ended: string[] = []
  const options = { configNames: [] as string[], config: 'optional' as const }
  const inspect = (account: string, file: FileHandle) =>
    fair.inspect(file, { account, ...options }).then(() => ended.push(account))
  // Opened before, so that they are requested in this order.
  const files = await Promise.all(
    [...Array.from({ length: 10 }, () => heavyPath), smallPath, smallPath].map(path => open(path)),
  )
  const all = files.map((file, n) => inspect(['bob', 'eve'][n - 10] ?? 'ana', file))
  await Promise.all(all.slice(10))
  // Alongside the two, one of hers is inspected at a time; in the order of the calls they would come last.
  t.true(ended.filter(account => account === 'ana').length < 8, ended.join(' '))
  await fair.close()
  await Promise.allSettled(all)
  for (const file of files) await file.close()
})

test.serial('each account has one archive inspected at a time, even while no other account waits', async t => {
  const childrenNow = async () =>
    (await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')).split(' ').filter(Boolean).length
  const before = await childrenNow()
  const fair = archives({ atOnce: 2, waitMs: Number.POSITIVE_INFINITY, spareAfterMs: 60_000 })
  const path = join(bench.base, 'of-one.zip')
  await writeFile(path, heavy(8))
  const files = await Promise.all([1, 2, 3].map(() => open(path)))
  const options = { account: 'ana', configNames: [] as string[], config: 'optional' as const }
  let left = files.length
  const all = files.map(file => fair.inspect(file, options).finally(() => left--))
  let most = 0
  while (left > 0) {
    most = Math.max(most, (await childrenNow()) - before)
    await wait(5)
  }
  await Promise.all(all)
  t.is(most, 1)
  await fair.close()
  for (const file of files) await file.close()
})

test('a long inspection runs at a lower priority', async t => {
  const pool = archives({ spareAfterMs: 60_000 })
  const inspecting = bench.inspect(heavy(80), pool)
  let over = false
  const ended = inspecting
    .catch(() => {})
    .finally(() => {
      over = true
    })
  const nice = new Set<number>()
  while (!over && nice.size === 0) {
    await wait(20)
    for (const thread of await threadsOfChildren()) if (thread.nice > 0) nice.add(thread.nice)
  }
  t.deepEqual([...nice], [5])
  await pool.close()
  await ended
})

/** All threads of this process's children. */
async function threadsOfChildren(): Promise<{ nice: number }[]> {
  const found: { nice: number }[] = []
  const pids = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')
  for (const pid of pids.split(' ').filter(Boolean)) {
    for (const thread of await readdir(`/proc/${pid}/task`).catch(() => [])) {
      const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => null)
      if (stat) found.push({ nice: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]) })
    }
  }
  return found
}

test('an endless inspection is ended', async t => {
  const hasty = archives({ inspectSeconds: 0.05 })
  await t.throwsAsync(bench.inspect(heavy(60), hasty), { code: 'UPLOAD_BUSY' })
  await hasty.close()
})

test('a child that is killed while it unpacks leaves an empty folder', async t => {
  const hasty = archives({ unpackSeconds: 0.4 })
  const { error, paths } = await bench.unpack(heavy(60), hasty)
  t.regex(String(error), /over 0.4 s/)
  t.deepEqual(paths, [])
  await hasty.close()
})

test('a child that takes too much memory is ended, and its archive refused', async t => {
  const narrow = archives({ memoryMb: 1 })
  t.like(await bench.inspect(heavy(60), narrow), {
    ok: false,
    code: 'INVALID_FILE',
    message: 'Reading the archive requires too much memory.',
  })
  const { error, paths } = await bench.unpack(heavy(60), narrow)
  t.true(error instanceof ArchiveRefused)
  t.deepEqual(paths, [])
  await narrow.close()
})

test.serial('a small inspection uses a spare child', async t => {
  const waited: boolean[] = []
  const warm = archives({ spareAfterMs: 0, observe: child => waited.push(child.waited) })
  const zip = appZip()
  for (let round = 0; round < 40 && !waited.includes(true); round++) {
    await wait(300)
    t.like(await bench.inspect(zip, warm), { ok: true })
  }
  t.true(waited.includes(true))
  await warm.close()
})
