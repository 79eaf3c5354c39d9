import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { open, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import { openInstallCache } from '../../../activities/installs/cache.ts'
import type { InstallCache } from '../../../activities/installs/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { MiB } from '../../../lib/bytes.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'

const program = [
  '--import',
  import.meta.resolve('tsx'),
  fileURLToPath(new URL('../../kit/children/keep-tools.ts', import.meta.url)),
]
const never = new AbortController().signal
const everyone = async (ids: readonly string[]) => new Set(ids)
const key = 'a'.repeat(64)

async function scene(t: ExecutionContext, maxBytes = 64 * MiB) {
  const folder = ownFolder(t)
  const root = join(folder, 'installs')
  const warnings: { message?: string; dropped?: number }[] = []
  const warn = (facts: { err?: Error; dropped?: number }) =>
    void warnings.push({ message: facts.err?.message, dropped: facts.dropped })
  const options = { root, maxBytes, snapshots: snapshots(), warn }
  const cache = await openInstallCache(options)
  let number = 0

  /** Keeps random bytes as the tools of an application; resolves to them. */
  async function keep(app: string, bytes = 1000, { account = 'ana', at = Date.now(), into = cache } = {}) {
    const content = randomBytes(bytes)
    const path = join(folder, String(++number))
    await writeFile(path, content)
    into.keepTools(account, app, { key, at, bytes, file: await open(path, 'r') })
    await into.settled()
    return content
  }
  return { folder, root, options, warnings, cache, keep }
}

/** The bytes of the stored tools; null without any that may be used. */
async function contentOf(cache: InstallCache, app: string, account = 'ana') {
  const held = await cache.openTools(account, app, key, never)
  if (held === null || typeof held === 'string') return held
  return readFile(held.path).finally(() => held.close())
}

test('the stored tools of an application are found by it alone, also by a later process, and another key finds none', async t => {
  const { cache, keep, options, root } = await scene(t)
  const content = await keep('one')
  const later = await openInstallCache(options)
  for (const at of [cache, later]) {
    t.deepEqual(await contentOf(at, 'one'), content)
    t.is(await contentOf(at, 'two'), null)
    t.is(await contentOf(at, 'one', 'bob'), null)
    t.is(await at.openTools('ana', 'one', 'b'.repeat(64), never), 'other')
  }
  t.is((await readdir(join(root, 'ana'))).length, 1, 'nothing is held any more')
  const newer = await keep('one')
  t.deepEqual(await contentOf(cache, 'one'), newer)
  t.is((await readdir(join(root, 'ana'))).length, 1, 'an application has one')
  for (const [account, app] of [
    ['ana', '../one'],
    ['../ana', 'one'],
    ['ana', ''],
  ] as const)
    await keep(app, 10, { account })
  t.is(cache.size().entries, 1, 'names that are none')
})

test('tools of the future, or of which one byte has changed, are not used', async t => {
  const { cache, keep, root } = await scene(t)
  await keep('one', 1000, { at: Date.now() + 3_600_000 })
  t.is(await contentOf(cache, 'one'), 'other')
  await keep('one', 2000)
  const path = join(root, 'ana', (await readdir(join(root, 'ana')))[0]!)
  const whole = await readFile(path)
  for (const at of [0, 1000, 1999]) {
    const damaged = Buffer.from(whole)
    damaged[at]! ^= 1
    await writeFile(path, damaged)
    t.is(await contentOf(cache, 'one'), 'damaged', `byte ${at}`)
    t.is(await contentOf(cache, 'one'), null)
    t.deepEqual(await readdir(join(root, 'ana')), [])
    await keep('one', 2000)
    const [name] = await readdir(join(root, 'ana'))
    t.not(join(root, 'ana', name!), path)
    await cache.dropTools('ana', 'one')
    await writeFile(path, whole)
    await cache.sweep(everyone, everyone)
    t.deepEqual(await contentOf(cache, 'one'), whole)
  }
})

test('tools that a build uses stay until it ends, and count as used', async t => {
  const { cache, keep, root, warnings } = await scene(t, 4 * MiB)
  const content = await keep('one', 300_000)
  await keep('two', 300_000)
  const held = await cache.openTools('ana', 'one', key, never)
  if (held === null || typeof held === 'string') return t.fail(String(held))
  for (const app of ['three', 'four']) await keep(app, 300_000)
  t.deepEqual(warnings, [], 'all were stored')
  t.is(await contentOf(cache, 'two'), null, 'the least recently used one goes first')
  t.deepEqual(await contentOf(cache, 'one'), content)
  await keep('five', 900_000)
  t.is(await contentOf(cache, 'one'), null)
  t.true(cache.size().bytes <= MiB)
  await cache.sweep(everyone, everyone)
  t.deepEqual(await readFile(held.path), content)
  t.is((await stat(held.path)).mode & 0o777, 0o644, 'the user of the application reads it')
  await held.close()
  t.is((await readdir(join(root, 'ana'))).length, 1)
})

test('tools of deleted applications are removed, and those that do not fit leave the others', async t => {
  const { cache, keep, root, warnings, folder, options } = await scene(t, 4 * MiB)
  for (const app of ['one', 'two']) await keep(app)
  await keep('large', MiB + 1)
  t.deepEqual(
    warnings.map(({ message }) => message),
    ['It is larger than the share of one account.'],
  )
  t.is(cache.size().entries, 2)
  await cache.sweep(everyone, async apps => new Set(apps.filter(app => app !== 'one')))
  t.is(cache.size().entries, 1)
  t.is(await contentOf(cache, 'one'), null)
  t.is((await readdir(join(root, 'ana'))).length, 1)
  const full = await openInstallCache({ ...options, root: join(folder, 'full'), freeBytes: Number.MAX_SAFE_INTEGER })
  await keep('one', 1000, { into: full })
  t.is(full.size().entries, 0)
})

test('a process that is killed while it stores or holds tools leaves whole ones, and no others', async t => {
  t.timeout(110_000)
  const { root, options, folder } = await scene(t, 8 * MiB)
  const source = join(folder, 'source')
  const content = randomBytes(600_000)
  await writeFile(source, content)
  const digest = createHash('sha256').update(content).digest('hex')
  const names = async () => (await readdir(join(root, 'ana')).catch(() => [])).sort()
  const seen = new Set<string>()
  for (const ending of ['.new', '.held', '.tgz', '.new', '.held', '.new']) {
    const child = spawn(process.execPath, [...program, root, source, String(8 * MiB)], { stdio: 'ignore' })
    const ended = once(child, 'exit')
    const before = new Set(await names())
    const reached = (all: string[]) => all.some(name => name.endsWith(ending) && !before.has(name))
    for (let tries = 0; tries < 20_000 && !reached(await names()); tries++) await sleep(1)
    child.kill('SIGKILL')
    t.is((await ended)[1], 'SIGKILL')
    for (const name of await names()) seen.add(name.slice(name.lastIndexOf('.')))

    const cache = await openInstallCache(options)
    const left = await names()
    t.true(left.every(name => name.endsWith('.tgz') && name.split('-')[1] === digest))
    t.is(left.length, cache.size().entries)
    t.true(cache.size().bytes <= 2 * MiB)
    for (const name of left) t.deepEqual(await contentOf(cache, /(app-\d+)\.tgz$/.exec(name)![1]!), content)
  }
  t.true(seen.has('.held'))
})

test('beyond 32 results that wait, the oldest of the account that has the most is given up, and counted', async t => {
  t.timeout(60_000)
  const { folder, options, warnings } = await scene(t)
  let [begin, end] = [() => {}, () => {}]
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const ended = new Promise<void>(resolve => {
    end = resolve
  })
  const make = () => {
    const held = async function* () {
      begin()
      await ended
      yield Buffer.from('x')
    }
    return { body: held(), totals: Promise.resolve({ digest: 'd', files: 1, bytes: 1, pausedMs: 0 }) }
  }
  const cache = await openInstallCache({ ...options, root: join(folder, 'other'), snapshots: { make } as never })
  const keyOf = (n: number) => n.toString(16).padStart(64, '0')
  const result = { folder, digest: 'd'.repeat(64), at: 1, bytes: 1 }
  const whole = { ...result, digest: 'd' }
  cache.keep('first', keyOf(0), whole)
  await begun
  cache.keep('quiet', keyOf(0), whole)
  for (let n = 1; n <= 35; n++) cache.keep('loud', keyOf(n), whole)
  await comesTrue(async () => warnings.length === 4)
  end()
  await cache.settled()
  t.deepEqual(
    warnings.map(({ dropped }) => dropped),
    [1, 2, 3, 4].map(() => 4),
  )
  t.true(warnings.every(({ message }) => message === 'Too many results wait to be stored.'))
  t.is(cache.size().entries, 1 + 1 + 31)
  const opened = await cache.open('quiet', keyOf(0))
  t.not(opened, null)
  await opened?.file.close()
  for (const n of [1, 4]) t.is(await cache.open('loud', keyOf(n)), null)
})
