import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import test, { type ExecutionContext } from 'ava'
import { withCode } from '../../../activities/failures.ts'
import { type Filling, FreezeTooLong, SnapshotCorrupt, SnapshotRefused } from '../../../activities/snapshots/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { readSnapshot } from '../../../activities/snapshots/read.ts'
import { MiB } from '../../../lib/bytes.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { lay, ownFolder, seen } from '../../kit/folders.ts'
import { facts, opened, requestOf, snapshotTo } from '../../kit/hosts/snapshots.ts'

const run = promisify(execFile)
const uid = process.getuid?.() === 0 ? 10_779 : null
const owner = uid === null ? null : { uid, gid: uid }
const port = snapshots()
const never = new AbortController().signal

/** An application's folder, the path of its archive, and an empty folder of its owner to unpack into. */
function places(t: ExecutionContext) {
  const folder = ownFolder(t)
  const [files, target] = [join(folder, 'files'), join(folder, 'target')]
  for (const path of [files, target]) fs.mkdirSync(path)
  if (uid !== null) fs.chownSync(target, uid, uid)
  return { files, target, archive: join(folder, 'snapshot.zip') }
}

const verified = (archive: string) => opened(archive, file => port.verify(file, never))
const unpacked = (archive: string, target: string) => opened(archive, file => port.unpack(file, target, owner, never))

const drained = async (_: unknown, content: AsyncIterable<Buffer>) => {
  for await (const _ of content);
}

const bytes = (text: string) => Buffer.from(text, 'latin1')
const inside = (folder: string, name: string) => Buffer.concat([Buffer.from(`${folder}/`), bytes(name)])

/** Everything that a folder can contain. */
async function oddTree(files: string): Promise<void> {
  lay(files, {
    'a/b/c/deep.txt': 'deep',
    'a-b': 'between a and a/b',
    empty: '',
    'empty-folder': null,
    'ünï/日本 語.txt': 'unicode',
    'new\nline "quoted" \\ back': 'odd',
    'run.sh': { text: '#!/bin/sh', mode: 0o755 },
    closed: { text: 'nobody reads this', mode: 0o000 },
    setuid: { text: 'x', mode: 0o4755 },
    dangling: { link: 'nowhere/at/all' },
    outside: { link: '/etc/passwd' },
    above: { link: '../../..' },
    'to-folder': { link: 'a' },
    long: 'abcdefghij'.repeat(50_000),
    '.berth-snapshot.json': 'an application may have a file of this name',
    'a/.berth-snapshot.json': 'this one is kept',
  })
  fs.writeFileSync(inside(files, '\xff\xfe not utf-8 \x80'), 'bytes')
  fs.writeFileSync(join(files, 'random'), crypto.getRandomValues(new Uint8Array(65_536)))
  fs.writeFileSync(join(files, 'random-large'), Buffer.concat(Array.from({ length: 20 }, () => randomPiece())))
  fs.mkdirSync(join(files, 'shut'))
  fs.writeFileSync(join(files, 'shut/inner'), 'x')
  fs.chmodSync(join(files, 'shut'), 0o500)
  fs.utimesSync(join(files, 'run.sh'), 1_000_000_000.25, 1_000_000_000.25)
  fs.lutimesSync(join(files, 'dangling'), 1_100_000_000, 1_100_000_000)
  await run('mkfifo', [join(files, 'pipe')])
  const server = createServer().listen(join(files, 'socket'))
  await once(server, 'listening')
  server.unref()
}

const randomPiece = () => Buffer.from(crypto.getRandomValues(new Uint8Array(65_536)))

/** The tree as it looks after a restore from a snapshot. */
function expectedOf(files: string): Record<string, string> {
  const { pipe: _, socket: __, '.berth-snapshot.json': ___, ...kept } = seen(files)
  return kept
}

test('everything that a folder can contain is restored unchanged', async t => {
  const { files, target, archive } = places(t)
  await oddTree(files)
  const totals = await snapshotTo(archive, port, requestOf(files))
  const expected = expectedOf(files)
  t.is(totals.files, Object.values(expected).filter(text => !text.startsWith('folder')).length)
  t.like(await verified(archive), { files: totals.files, bytes: totals.bytes, digest: totals.digest })
  await unpacked(archive, target)
  t.deepEqual(seen(target), expected)
  t.is(fs.statSync(join(target, 'setuid')).mode & 0o7000, 0)
  for (const name of ['run.sh', 'dangling', 'a', 'shut', 'long'])
    t.true(Math.abs(fs.lstatSync(join(target, name)).mtimeMs - fs.lstatSync(join(files, name)).mtimeMs) < 1, name)
  if (uid !== null) t.is(fs.lstatSync(join(target, 'outside')).uid, uid)
  const again = await snapshotTo(archive, port, requestOf(target))
  t.is(again.digest, totals.digest)
})

test('any zip tool opens a snapshot, and finds the manifest last', async t => {
  const { files, archive } = places(t)
  await oddTree(files)
  await snapshotTo(archive, port, requestOf(files))
  t.regex((await run('unzip', ['-t', archive])).stdout, /No errors detected/)
  const script = `
import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
manifest = json.loads(archive.read(archive.namelist()[-1]))
print(json.dumps([archive.namelist(), manifest]))`
  const [names, manifest] = JSON.parse((await run('python3', ['-c', script, archive])).stdout)
  t.is(names.at(-1), '.berth-snapshot.json')
  t.true(names.includes('ünï/日本 語.txt'))
  t.true(names.includes('empty-folder/'))
  t.is(names.length, manifest.entries.length + 1)
  t.deepEqual(manifest.application, facts)
  const long = manifest.entries.find((entry: { path: string }) => entry.path === 'long')
  t.is(
    long.sha256,
    execFileSync('sha256sum', [join(files, 'long')])
      .toString()
      .slice(0, 64),
  )
})

test('a folder that is too deep for an archive is refused with the reason', async t => {
  const { files, archive } = places(t)
  fs.mkdirSync(join(files, 'd/'.repeat(250)), { recursive: true })
  await t.throwsAsync(snapshotTo(archive, port, requestOf(files)), { message: /over 250 folders deep/ })
})

test('files that exceed twice the size of their disk are refused, naming the file', async t => {
  const { files, archive } = places(t)
  const { blocks, bsize } = fs.statfsSync(files)
  for (const name of ['a', 'b', 'c', 'd']) fs.writeFileSync(join(files, name), '')
  fs.truncateSync(join(files, 'd'), Math.min(2 * blocks * bsize + 1, 15 * 1024 ** 4))
  const refused = { instanceOf: SnapshotRefused, message: /^With d the files exceed twice the size of their disk/ }
  await t.throwsAsync(snapshotTo(archive, port, requestOf(files)), refused)
  t.like(withCode(new SnapshotRefused('x')), { type: 'ACTION_FAILED', nonRetryable: true })
})

test('a large file that is compressed already is stored, although its beginning shrinks', async t => {
  const { files, archive } = places(t)
  const random = Buffer.concat(Array.from({ length: 40 }, () => randomPiece()))
  fs.writeFileSync(join(files, 'dump'), Buffer.concat([Buffer.alloc(131_072, 'header '), random]))
  fs.writeFileSync(join(files, 'text'), 'abcdefghij'.repeat(50_000))
  await snapshotTo(archive, port, requestOf(files))
  const methods = (await run('unzip', ['-v', archive])).stdout.matchAll(/^ *\d+ +(\S+).* (\S+)$/gm)
  const byName = Object.fromEntries([...methods].map(([, method, name]) => [name, method]))
  t.like(byName, { dump: 'Stored', text: 'Defl:N' })
})

test('a dump of a database, which nothing writes to, pauses nothing', async t => {
  const { files, archive } = places(t)
  fs.writeFileSync(join(files, '0.dump'), 'a'.repeat(100_000))
  const fail = async () => t.fail('nothing is paused')
  const dump = { databaseId: 'd'.repeat(32), name: 'x', createdAt: facts.createdAt, engine: 'postgres', version: '17' }
  const totals = await snapshotTo(archive, port, requestOf(files, { facts: dump, pause: fail, resume: fail }))
  t.like(totals, { files: 1, bytes: 100_000, pausedMs: 0 })
  t.is((await verified(archive)).digest, totals.digest)
})

test('an empty folder is a snapshot too', async t => {
  const { files, target, archive } = places(t)
  t.like(await snapshotTo(archive, port, requestOf(files)), { files: 0, bytes: 0 })
  await unpacked(archive, target)
  t.deepEqual(seen(target), {})
})

test('a program that constantly changes its files is copied in its frozen state', async t => {
  const { files, target, archive } = places(t)
  for (let n = 0; n < 40; n++)
    fs.writeFileSync(join(files, `base-${n}`), Buffer.concat(Array.from({ length: 16 }, randomPiece)))
  const script = join(import.meta.dirname, '../../kit/children/restless.py')
  const program = spawn('python3', [script, files], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => program.kill('SIGKILL'))
  await once(program.stdout, 'data')
  let still: Record<string, string> = {}
  const request = requestOf(files, {
    async pause() {
      program.kill('SIGSTOP')
      await comesTrue(() => /\) T /.test(fs.readFileSync(`/proc/${program.pid}/stat`, 'latin1')))
      still = seen(files)
    },
    async resume() {
      program.kill('SIGCONT')
    },
  })
  for (let round = 0; round < 3; round++) {
    const totals = await snapshotTo(archive, port, request)
    t.true(still.log!.length > 100 && totals.pausedMs > 0)
    t.regex((await run('unzip', ['-tq', archive])).stdout, /No errors/)
    await unpacked(archive, target)
    t.deepEqual(seen(target), still)
    for (const name of fs.readdirSync(target)) fs.rmSync(join(target, name), { recursive: true })
  }
})

test('large changes during the copy are copied before the pause', async t => {
  const { files, archive } = places(t)
  const random = (name: string, pieces: number) =>
    fs.writeFileSync(join(files, name), Buffer.concat(Array.from({ length: pieces }, randomPiece)))
  random('first', 700)
  random('second', 400)
  let read = 0
  let readAtPause = 0
  const pause = async () => {
    readAtPause = read
  }
  const { body, totals } = port.make(requestOf(files, { pause }))
  const out = fs.createWriteStream(archive)
  for await (const piece of body) {
    if (read === 0) random('second', 400) // meanwhile the child blocks in the first file: it has no reader
    read += piece.length
    out.write(piece)
  }
  out.end()
  await once(out, 'close')
  const { bytes } = await totals
  t.true(read - readAtPause < 8 << 20, `${readAtPause} of ${read} bytes before the pause`)
  t.is(bytes, 1100 * 65_536)
  t.is((await verified(archive)).files, 2)
})

test('a folder is copied while it is filled, as it is at the end', async t => {
  const { files, target, archive } = places(t)
  const grows =
    (name: string, pieces: number, isPacked: boolean, piece = randomPiece) =>
    async (filling: Filling) => {
      fs.writeFileSync(join(files, name), '')
      filling.begins(name, isPacked)
      for (let n = 0; n < pieces; n++) {
        fs.appendFileSync(join(files, name), piece())
        await sleep(2)
      }
      filling.ends(name)
    }
  const read: number[] = []
  const fill = async (filling: Filling) => {
    await grows('packed', 60, true)(filling)
    // It is archived before the folder has everything.
    await comesTrue(() => (read.at(-1) ?? 0) > 3_500_000)
    fs.mkdirSync(join(files, 'below'))
    await grows('below/text', 40, false, () => Buffer.from('the same again '.repeat(5000)))(filling)
    for (const name of ['empty', 'small']) {
      fs.writeFileSync(join(files, name), name === 'empty' ? '' : 'x')
      filling.begins(name, false)
      filling.ends(name)
    }
    await grows('changed later', 5, true)(filling)
    await comesTrue(() => (read.at(-1) ?? 0) > 4_100_000)
    fs.writeFileSync(join(files, 'changed later'), 'other bytes')
    fs.writeFileSync(join(files, 'never announced'), 'y')
  }
  const { body, totals } = port.make(requestOf(files, { facts: { installKey: 'k' }, fill }))
  const out = fs.createWriteStream(archive)
  for await (const piece of body) {
    read.push((read.at(-1) ?? 0) + piece.length)
    out.write(piece)
  }
  out.end()
  await once(out, 'close')
  const made = await totals
  t.is(made.digest, (await port.digest(files, never)).digest)
  t.is((await verified(archive)).digest, made.digest)
  await unpacked(archive, target)
  t.deepEqual(seen(target), seen(files))
  await run('unzip', ['-tq', archive])
  t.true(fs.statSync(archive).size < 4_500_000, 'what shrinks is packed')
})

test('a folder that cannot be filled has no archive, and the reason is that of what fills it', async t => {
  const { files, archive } = places(t)
  const reason = new Error('the engine has ended')
  const fill = async (filling: Filling) => {
    fs.writeFileSync(join(files, 'half'), 'half')
    filling.begins('half', true)
    await sleep(50)
    throw reason
  }
  const request = requestOf(files, { facts: { installKey: 'k' }, fill })
  t.is(await t.throwsAsync(snapshotTo(archive, port, request)), reason)
})

test('a program that would be frozen for too long resumes, and its snapshot fails', async t => {
  const { files, archive } = places(t)
  const calls: string[] = []
  const impatient = snapshots({ pauseSeconds: 0.3 })
  const { body, totals } = impatient.make(
    requestOf(files, {
      async pause() {
        calls.push('pause')
        fs.writeFileSync(join(files, 'sudden'), Buffer.concat(Array.from({ length: 256 }, randomPiece)))
      },
      resume: async () => void calls.push('resume'),
    }),
  )
  await t.throwsAsync(totals, { instanceOf: FreezeTooLong, message: /frozen for over 0\.3 s/ }) // no reader: like a slow store
  t.deepEqual(calls, ['pause', 'resume'])
  await t.throwsAsync(async () => {
    for await (const piece of body) fs.appendFileSync(archive, piece)
  })
})

test('files for which a snapshot requires too much memory are refused with their number: no retry could change it', async t => {
  const { files, target, archive } = places(t)
  for (let n = 0; n < 40_000; n++) fs.writeFileSync(join(files, `${n}`), '')
  const peakOf = async (folder: string) => {
    let peak = 0
    await snapshotTo(archive, snapshots({ observe: bytes => (peak = bytes) }), requestOf(folder))
    return peak
  }
  const half = (await peakOf(target)) / 2 + (await peakOf(files)) / 2
  const { totals, body } = snapshots({ memoryMb: half / MiB }).make(requestOf(files))
  body.on('error', () => {}).resume()
  const error = await t.throwsAsync(totals, { instanceOf: SnapshotRefused })
  t.regex(error!.message, /too much memory: there are over \d+,000 of them\.$/)
})

for (const moment of ['before', 'during'] as const)
  test(`cancelled ${moment} the pause, both ends fail with the reason and the program resumes`, async t => {
    const { files } = places(t)
    fs.writeFileSync(join(files, 'random'), Buffer.concat(Array.from({ length: 160 }, randomPiece)))
    const calls: string[] = []
    const cancel = new AbortController()
    const { body, totals } = port.make(
      requestOf(files, {
        signal: cancel.signal,
        async pause() {
          calls.push('pause')
          if (moment === 'during') cancel.abort(new Error('changed my mind'))
        },
        resume: async () => void calls.push('resume'),
      }),
    )
    const reading = (async () => {
      for await (const _ of body) if (moment === 'before') cancel.abort(new Error('changed my mind'))
    })()
    await t.throwsAsync(totals, { message: 'changed my mind' })
    await t.throwsAsync(reading, { message: 'changed my mind' })
    t.deepEqual(calls, moment === 'during' ? ['pause', 'resume'] : [])
  })

test('a program that cannot be paused, or not resumed, has no snapshot', async t => {
  const { files, archive } = places(t)
  const pause = requestOf(files, { pause: () => Promise.reject(new Error('the engine is away')) })
  await t.throwsAsync(snapshotTo(archive, port, pause), { message: 'the engine is away' })
  const resume = requestOf(files, { resume: () => Promise.reject(new Error('it sleeps on')) })
  await t.throwsAsync(snapshotTo(archive, port, resume), { message: 'it sleeps on' })
})

// Serial tests run before the others: there are no children but its own.
test.serial('a child that dies, or whose reader stops, is reported as such', async t => {
  const { files } = places(t)
  fs.writeFileSync(join(files, 'random'), Buffer.concat(Array.from({ length: 320 }, randomPiece)))
  const children = () => fs.readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1').trim().split(/\s+/)
  const before = new Set(children())
  const { body, totals } = port.make(requestOf(files))
  const reading = (async () => {
    for await (const _ of body)
      for (const pid of children()) if (pid !== '' && !before.has(pid)) process.kill(Number(pid), 'SIGKILL')
  })()
  await t.throwsAsync(totals, { message: /cut off by SIGKILL/ })
  await t.throwsAsync(reading, { message: /cut off by SIGKILL/ })
  const left = port.make(requestOf(files))
  for await (const _ of left.body) break
  await t.throwsAsync(left.totals, { message: /reader/ })
})

test('a flipped byte is found anywhere, and unpacking leaves nothing', async t => {
  const { files, target, archive } = places(t)
  lay(files, {
    'small.txt': 'small',
    'packed.txt': 'packed '.repeat(1000),
    'folder/stays': 'x',
    link: { link: 'nowhere' },
  })
  fs.writeFileSync(join(files, 'long'), 'a long one '.repeat(100_000))
  fs.writeFileSync(join(files, 'random'), Buffer.concat(Array.from({ length: 4 }, randomPiece)))
  await snapshotTo(archive, port, requestOf(files))
  const whole = fs.readFileSync(archive)
  const dataOf = (name: string) => whole.indexOf(name) + name.length + 40
  const spots: [number, RegExp][] = [
    [whole.indexOf('small.txt') + 9 + 9 + 2, /small\.txt/],
    [dataOf('packed.txt'), /packed\.txt/],
    [dataOf('long') + 500, /long/],
    [dataOf('random') + 100_000, /random/],
    [whole.indexOf('folder/stays') + 3, /./],
    [dataOf('.berth-snapshot.json') + 100, /manifest|json/],
    [whole.lastIndexOf('packed.txt') + 2, /packed|pa/],
    [whole.lastIndexOf('small.txt') - 46 + 16, /small\.txt/],
    [whole.length - 5, /cannot be read/],
  ]
  for (const [at, message] of spots) {
    const broken = Buffer.from(whole)
    broken[at]! ^= 0x10
    fs.writeFileSync(archive, broken)
    const reading = opened(archive, file => readSnapshot(file.fd, drained))
    await t.throwsAsync(reading, { instanceOf: SnapshotCorrupt, message }, `byte ${at}`)
    if (at % 3 > 0) continue
    await t.throwsAsync(verified(archive), { instanceOf: SnapshotCorrupt, message }, `byte ${at}`)
    await t.throwsAsync(unpacked(archive, target), { instanceOf: SnapshotCorrupt, message }, `byte ${at}`)
    t.deepEqual(seen(target), {}, `byte ${at}`)
  }
  fs.writeFileSync(archive, whole.subarray(0, whole.length - 100))
  await t.throwsAsync(verified(archive), { instanceOf: SnapshotCorrupt })
  fs.writeFileSync(archive, 'no archive')
  await t.throwsAsync(verified(archive), { instanceOf: SnapshotCorrupt })
})

test.serial('a cancelled unpacking leaves nothing, and one into a non-empty folder is refused', async t => {
  const { files, target, archive } = places(t)
  for (let n = 0; n < 5000; n++) fs.writeFileSync(join(files, `f${n}`), `${n}`)
  await snapshotTo(archive, port, requestOf(files))
  const cancel = new AbortController()
  const watch = fs.watch(target, () => cancel.abort(new Error('enough')))
  await opened(archive, file => t.throwsAsync(port.unpack(file, target, owner, cancel.signal), { message: 'enough' }))
  watch.close()
  t.deepEqual(fs.readdirSync(target).length, 0)
  lay(target, { mine: 'there' })
  await t.throwsAsync(unpacked(archive, target), { message: /not empty/ })
  t.deepEqual(seen(target), { mine: 'file 644 there' })
})

test('a disk that is too small is reported, and one that a sparse file fits into is not', async t => {
  const { files, target, archive } = places(t)
  await run('mount', [
    '-t',
    'tmpfs',
    '-o',
    `size=4m,mode=755${uid === null ? '' : `,uid=${uid},gid=${uid}`}`,
    'none',
    target,
  ])
  t.teardown(() => execFileSync('umount', [target]))
  fs.writeFileSync(join(files, 'sparse'), 'begins')
  fs.truncateSync(join(files, 'sparse'), 64 << 20)
  await snapshotTo(archive, port, requestOf(files))
  await unpacked(archive, target)
  t.is(fs.statSync(join(target, 'sparse')).size, 64 << 20)
  t.is(fs.readFileSync(join(target, 'sparse')).toString('latin1', 0, 7), 'begins\0')
  fs.unlinkSync(join(target, 'sparse'))
  fs.writeFileSync(join(files, 'full'), Buffer.concat(Array.from({ length: 128 }, randomPiece)))
  await snapshotTo(archive, port, requestOf(files))
  await t.throwsAsync(unpacked(archive, target), { instanceOf: NoSpaceLeft })
  t.deepEqual(seen(target), {})
})

test('a drill: 5,000 small files are destroyed and come back', async t => {
  const { files, target, archive } = places(t)
  for (let n = 0; n < 5000; n++) {
    const folder = join(files, `d${n % 50}`)
    if (n < 50) fs.mkdirSync(folder)
    fs.writeFileSync(join(folder, `file-${n}.txt`), `${n} `.repeat(n % 300))
  }
  const expected = seen(files)
  await snapshotTo(archive, port, requestOf(files))
  fs.rmSync(files, { recursive: true })
  await unpacked(archive, target)
  t.deepEqual(seen(target), expected)
})
