import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import { openInstallCache } from '../../../activities/installs/cache.ts'
import { SnapshotCorrupt } from '../../../activities/snapshots/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { MiB } from '../../../lib/bytes.ts'

const made = snapshots()
const program = [
  '--import',
  import.meta.resolve('tsx'),
  fileURLToPath(new URL('../../kit/children/keep-installs.ts', import.meta.url)),
]
const signal = new AbortController().signal
const everyone = async (ids: readonly string[]) => new Set(ids)
const keyOf = (n: number) => n.toString(16).padStart(64, '0')

async function scene(t: ExecutionContext, maxBytes = 64 * MiB) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-install-cache-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const root = join(folder, 'installs')
  const warnings: string[] = []
  const options = {
    root,
    maxBytes,
    snapshots: made,
    warn: (facts: { err?: Error }) => void warnings.push(facts.err?.message ?? ''),
  }
  let number = 0

  /** A folder with a file of random bytes, which no compression makes smaller. */
  async function result(bytes = 1000, at = Date.now()) {
    const source = join(folder, String(++number))
    await mkdir(join(source, 'a'), { recursive: true })
    await writeFile(join(source, 'a/file'), randomBytes(bytes), { mode: 0o750 })
    await symlink('../a/file', join(source, 'a/link'))
    return { folder: source, at, ...(await made.digest(source, signal)) }
  }

  async function unpacked(file: Parameters<typeof made.unpack>[0]) {
    const target = join(folder, `to-${++number}`)
    await mkdir(target)
    return made.unpack(file, target, null, signal).finally(() => file.close())
  }

  return { root, options, warnings, result, unpacked, cache: await openInstallCache(options) }
}

test('a stored result is unpacked as it was installed, also by a later process', async t => {
  const { cache, options, result, unpacked, root } = await scene(t)
  const one = await result()
  t.is(await cache.open('ana', keyOf(1)), null)
  cache.keep('ana', keyOf(1), one)
  await cache.settled()
  const later = await openInstallCache(options)
  for (const opened of [await cache.open('ana', keyOf(1)), await later.open('ana', keyOf(1))]) {
    t.is(opened?.at, one.at)
    t.is(opened?.digest, one.digest)
    t.is((await unpacked(opened!.file)).digest, one.digest)
  }
  t.is((await readdir(join(root, 'ana'))).length, 1)
  t.deepEqual(later.size(), cache.size())
})

test('no account finds a result of another one', async t => {
  const { cache, result } = await scene(t)
  cache.keep('ana', keyOf(1), await result())
  await cache.settled()
  for (const account of ['bob', 'ana/', '../installs/ana', './ana', '', 'ANA'])
    t.is(await cache.open(account, keyOf(1)), null, account)
  cache.keep('../bob', keyOf(2), await result())
  await cache.settled()
  t.is(await cache.open('../bob', keyOf(2)), null, 'a name that is none of an account')
})

test('every damage of an archive is noticed', async t => {
  const { cache, root, result, unpacked } = await scene(t)
  cache.keep('ana', keyOf(1), await result(3000))
  await cache.settled()
  const [name] = await readdir(join(root, 'ana'))
  const path = join(root, 'ana', name!)
  const whole = await readFile(path)
  const outcome = async () => {
    const opened = (await cache.open('ana', keyOf(1)))!
    return unpacked(opened.file).then(
      ({ digest }) => digest === opened.digest,
      error => {
        t.true(error instanceof SnapshotCorrupt, String(error))
        return false
      },
    )
  }
  t.true(await outcome())
  for (const length of [0, 10, whole.length >> 1, whole.length - 1]) {
    await truncate(path, length)
    t.false(await outcome(), `${length} bytes`)
    await writeFile(path, whole)
  }
  for (let at = 45; at < whole.length - 22; at += 211) {
    const damaged = Buffer.from(whole)
    damaged[at]! ^= 1
    await writeFile(path, damaged)
    const isIntact = await outcome()
    // A field that says nothing about the files, such as a time, may change.
    if (isIntact) t.log(`byte ${at} says nothing about the files`)
  }
  const content = whole.indexOf(await readFile(join(root, '../1/a/file')))
  await writeFile(path, whole)
  for (const at of [content, content + 1500, content + 2999]) {
    const damaged = Buffer.from(whole)
    damaged[at]! ^= 1
    await writeFile(path, damaged)
    t.false(await outcome(), `byte ${at} of the content`)
  }
  await cache.drop('ana', keyOf(1))
  t.is(await cache.open('ana', keyOf(1)), null)
  t.deepEqual(await readdir(join(root, 'ana')), [])
})

test('an archive of other files than were installed is not stored', async t => {
  const { cache, root, result, warnings } = await scene(t)
  const one = await result()
  await writeFile(join(one.folder, 'more'), 'x')
  cache.keep('ana', keyOf(1), one)
  await cache.settled()
  t.is(await cache.open('ana', keyOf(1)), null)
  t.deepEqual(warnings, ['The files are not as they were installed.'])
  t.deepEqual(await readdir(join(root, 'ana')), [])
})

test('an account uses a quarter of the cache at most, and what was not used for long goes first', async t => {
  const { cache, result, options, warnings, root } = await scene(t, 4 * MiB)
  const keep = async (account: string, number: number, bytes = 300_000) => {
    cache.keep(account, keyOf(number), await result(bytes))
    await cache.settled()
  }
  const has = async (account: string, number: number) => {
    const opened = await cache.open(account, keyOf(number))
    await opened?.file.close()
    return opened !== null
  }
  for (const number of [1, 2, 3]) await keep('ana', number)
  t.true(await has('ana', 1), 'used now')
  await keep('ana', 4)
  t.deepEqual(
    [await has('ana', 1), await has('ana', 2), await has('ana', 3), await has('ana', 4)],
    [true, false, true, true],
  )
  t.true(cache.size().bytes <= MiB)

  await keep('bob', 1, 1_100_000)
  t.false(await has('bob', 1), 'larger than the share of one account')
  t.deepEqual(warnings, ['It is larger than the share of one account.'])
  t.is((await readdir(join(root, 'ana'))).length, 3, 'and nothing of others went for it')

  for (const account of ['bob', 'carl', 'dora', 'emil']) await keep(account, 1, 1_000_000)
  t.true(cache.size().bytes <= 4 * MiB)
  t.true(await has('emil', 1))
  t.false(await has('ana', 3), 'the oldest of all')
  const onDisk = (await readdir(root, { recursive: true })).filter(name => name.endsWith('.zip'))
  t.is(onDisk.length, cache.size().entries)
  const smaller = await openInstallCache({ ...options, maxBytes: 2 * MiB })
  t.true(smaller.size().bytes <= 2 * MiB, 'a smaller cache after a restart')
})

test('a later result replaces the one of the same key, also across a kill', async t => {
  const { cache, result, root, options } = await scene(t)
  const old = await result(1000, 1000)
  cache.keep('ana', keyOf(1), old)
  await cache.settled()
  const [name] = await readdir(join(root, 'ana'))
  const bytes = await readFile(join(root, 'ana', name!))
  const fresh = await result(1000, 2000)
  cache.keep('ana', keyOf(1), fresh)
  await cache.settled()
  t.is((await readdir(join(root, 'ana'))).length, 1)
  await writeFile(join(root, 'ana', name!), bytes)
  await writeFile(join(root, 'ana', 'half.new'), 'x')
  await writeFile(join(root, 'stranger'), 'x')
  const later = await openInstallCache(options)
  t.is((await readdir(join(root, 'ana'))).length, 1, 'neither the older one nor the half of one')
  const opened = await later.open('ana', keyOf(1))
  t.is(opened?.digest, fresh.digest)
  await opened?.file.close()
})

test('a process that is killed while it stores results leaves whole ones, and no others', async t => {
  t.timeout(110_000)
  const { root, options, result, unpacked } = await scene(t, 8 * MiB)
  const { folder, digest } = await result(600_000)
  const names = async () => (await readdir(join(root, 'ana')).catch(() => [])).sort()
  let kills = 0
  for (let round = 0; round < 8; round++) {
    const child = spawn(process.execPath, [...program, root, folder, String(8 * MiB)], { stdio: 'ignore' })
    const ended = once(child, 'exit')
    const before = (await names()).join()
    // Half of them while an archive is being written, the others right after one got its name.
    const reached = (all: string[]) =>
      round % 2
        ? all.some(name => name.endsWith('.new'))
        : all.join() !== before && !all.some(name => name.endsWith('.new'))
    for (let tries = 0; tries < 20_000 && !reached(await names()); tries++) await sleep(1)
    child.kill('SIGKILL')
    const [, signal] = await ended
    if (signal === 'SIGKILL') kills++

    const cache = await openInstallCache(options)
    t.true((await names()).every(name => name.endsWith('.zip')))
    t.is((await names()).length, cache.size().entries)
    t.true(cache.size().bytes <= 2 * MiB)
    for (const name of await names()) {
      const opened = await cache.open('ana', name.slice(0, 64))
      t.is((await unpacked(opened!.file)).digest, digest)
    }
  }
  t.is(kills, 8)
})

test('results of deleted accounts, and those that were not used for 30 days, are removed', async t => {
  const { cache, result, root, options } = await scene(t)
  for (const account of ['ana', 'bob', 'carl']) cache.keep(account, keyOf(1), await result())
  await cache.settled()
  const day = 86_400_000
  const [name] = await readdir(join(root, 'bob'))
  const used = (daysAgo: number) => new Date(Date.now() - daysAgo * day)
  await utimes(join(root, 'bob', name!), used(31), used(31))
  const later = await openInstallCache(options)
  await later.sweep(async accounts => new Set(accounts.filter(account => account !== 'carl')), everyone)
  t.deepEqual(await readdir(root), ['ana'])
  t.is(later.size().entries, 1)
})

test('nothing is stored when the disk of the host has too little free space', async t => {
  const { options, result, warnings } = await scene(t)
  const cache = await openInstallCache({ ...options, freeBytes: Number.MAX_SAFE_INTEGER })
  cache.keep('ana', keyOf(1), await result())
  await cache.settled()
  t.is(await cache.open('ana', keyOf(1)), null)
  t.deepEqual(warnings, ['The disk of the host has too little free space.'])
})

test('an entry that is being packed when the host ends is given up', async t => {
  const { cache, result, root } = await scene(t)
  cache.keep('ana', keyOf(1), await result(8_000_000))
  await cache.close()
  t.deepEqual(
    (await readdir(root, { recursive: true })).filter(name => /zip|new/.test(name)),
    [],
  )
})

test('a result that does not fit leaves the others of its account, and one far too large is not packed at all', async t => {
  const { options, result, root } = await scene(t, 4 * MiB)
  let packed = 0
  const make: typeof made.make = request => {
    packed++
    return made.make(request)
  }
  const warnings: string[] = []
  const warn = (facts: { err?: Error }) => void warnings.push(facts.err?.message ?? '')
  const cache = await openInstallCache({ ...options, snapshots: { make }, warn })
  for (const number of [1, 2]) cache.keep('ana', keyOf(number), await result(100_000))
  await cache.settled()
  const before = (await readdir(join(root, 'ana'))).sort()
  t.is(before.length, 2)
  cache.keep('ana', keyOf(3), await result(1_100_000))
  await cache.settled()
  t.deepEqual((await readdir(join(root, 'ana'))).sort(), before)
  t.is(packed, 3)
  cache.keep('ana', keyOf(4), { ...(await result()), bytes: 8 * MiB + 1 })
  await cache.settled()
  t.is(packed, 3)
  t.deepEqual(warnings, Array(2).fill('It is larger than the share of one account.'))
  t.deepEqual((await readdir(join(root, 'ana'))).sort(), before)
})

/** Packing that waits for `end` before it begins to write. */
function heldPacking() {
  let [begin, end] = [() => {}, () => {}]
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const ended = new Promise<void>(resolve => {
    end = resolve
  })
  const make = (request: Parameters<typeof made.make>[0]) => {
    const { body, totals } = made.make(request)
    const held = async function* () {
      begin()
      await ended
      yield* body
    }
    return { body: held(), totals }
  }
  return { make, begun, end }
}

test('a result that waits to be stored, or is being packed, does not come after its key was dropped', async t => {
  const { options, result, warnings } = await scene(t)
  const { make, begun, end } = heldPacking()
  const cache = await openInstallCache({ ...options, snapshots: { make } as never })
  const [distrusted, other, clean] = [await result(), await result(), await result()]
  cache.keep('ana', keyOf(1), distrusted)
  await begun
  for (const number of [2, 3]) cache.keep('ana', keyOf(number), other)
  for (const number of [1, 2]) await cache.drop('ana', keyOf(number))
  await cache.drop('bob', keyOf(3))
  cache.keep('ana', keyOf(2), clean)
  end()
  await cache.settled()
  const held = async (number: number) => {
    const opened = await cache.open('ana', keyOf(number))
    await opened?.file.close()
    return opened?.digest
  }
  t.deepEqual([await held(1), await held(2), await held(3)], [undefined, clean.digest, other.digest])
  t.deepEqual(warnings, [])
})

test('a sweep compares the cache with its folder, and leaves what is being written', async t => {
  const { options, result, root } = await scene(t)
  const { make, begun, end } = heldPacking()
  const first = await openInstallCache(options)
  for (const number of [1, 2]) first.keep('ana', keyOf(number), await result())
  await first.settled()
  const cache = await openInstallCache({ ...options, snapshots: { make } as never })
  cache.keep('ana', keyOf(3), await result())
  await begun
  const names = (await readdir(join(root, 'ana'))).sort()
  const [one, two] = names.filter(name => name.endsWith('.zip'))
  // As of a process that was the host before, or after an error before the cache learned of it.
  await rename(join(root, 'ana', one!), join(root, 'ana', one!.replace(keyOf(1), keyOf(9))))
  for (const name of ['half.new', 'stranger']) await writeFile(join(root, 'ana', name), 'x')
  await cache.sweep(everyone, everyone)
  const own = names.filter(name => name.endsWith('.new'))
  t.is(own.length, 1)
  t.deepEqual((await readdir(join(root, 'ana'))).sort(), [one!.replace(keyOf(1), keyOf(9)), two!, ...own].sort())
  t.is(cache.size().entries, 2)
  t.is(await cache.open('ana', keyOf(1)), null)
  const opened = await cache.open('ana', keyOf(9))
  t.not(opened, null)
  await opened?.file.close()
  end()
  await cache.settled()
  t.is(cache.size().entries, 3)
})

test('an account whose first result is stored during a sweep keeps it', async t => {
  const { cache, result, root } = await scene(t)
  cache.keep('ana', keyOf(1), await result())
  await cache.settled()
  await cache.sweep(async accounts => {
    cache.keep('bob', keyOf(1), await result())
    await cache.settled()
    return new Set(accounts)
  }, everyone)
  t.deepEqual((await readdir(root)).sort(), ['ana', 'bob'])
  t.is(cache.size().entries, 2)
})

test('a result from the future is replaced by one of now, also after a restart', async t => {
  const { cache, result, root, options } = await scene(t)
  const future = await result(1000, Date.now() + 86_400_000)
  const now = await result(1000, Date.now() - 1000)
  for (const one of [future, now]) {
    cache.keep('ana', keyOf(1), one)
    await cache.settled()
  }
  const held = async (from: typeof cache) => {
    const opened = await from.open('ana', keyOf(1))
    await opened?.file.close()
    return opened?.digest
  }
  t.is(await held(cache), now.digest)
  const [name] = await readdir(join(root, 'ana'))
  await writeFile(join(root, 'ana', `${keyOf(1)}-${future.digest}-${future.at}.zip`), 'x')
  t.is(await held(await openInstallCache(options)), now.digest)
  t.deepEqual(await readdir(join(root, 'ana')), [name])
})
