import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { placement } from '../../../activities/placement/process.ts'
import { settle } from '../../../activities/placement/settle.ts'
import { recordSwapped, swapBack, swapIn } from '../../../activities/placement/swap.ts'
import { Tree } from '../../../lib/folders/tree.ts'
import { crashAt } from '../../kit/crash/crash-point.ts'
import { type Contents, give, lay, ownFolder, seen } from '../../kit/folders.ts'

const uid = process.getuid?.() === 0 ? 10_778 : null
const owner = uid === null ? null : { uid, gid: uid }
const placing = placement()

const first: Contents = { 'run.js': 'one', 'lib/a.js': 'a', 'lib/old.js': 'old' }
const written: Contents = { 'data/own.db': 'newer', 'run.js': 'by hand' }
const snapshot: Contents = {
  'run.js': { text: 'one', mode: 0o000 },
  'lib/a.js': 'a before',
  'data/own.db': 'older',
  'lib/old.js': 'old',
}

/** A volume whose first release runs and has written, and release 2 with the sources of a snapshot. */
function scene(volume: string) {
  rmSync(volume, { recursive: true, force: true })
  mkdirSync(join(volume, 'files'), { recursive: true })
  const request = (release: number, changes = {}) => ({ volume, release, path: '', whole: true, owner, ...changes })
  const bring = (release: number, contents: Contents) => {
    lay(join(volume, `releases/${release}/source`), contents)
    if (uid !== null) give(join(volume, `releases/${release}`), uid)
  }
  const write = (contents: Contents) => {
    lay(join(volume, 'files'), contents)
    if (uid !== null) give(join(volume, 'files'), uid)
  }
  return { request, bring, write, swap: request(2, { swap: true }), files: () => seen(join(volume, 'files')) }
}

async function prepared(volume: string) {
  const now = scene(volume)
  now.bring(1, first)
  await placing.place(now.request(1))
  await placing.settle(now.request(1))
  now.write(written)
  now.bring(2, snapshot)
  return now
}

test('a restored tree replaces the whole folder, and an undo brings the old one back whole', async t => {
  const volume = ownFolder(t)
  const now = await prepared(volume)
  const before = now.files()
  for (let turn = 0; turn < 2; turn++) {
    await placing.place(now.swap)
    await placing.place(now.swap)
    t.deepEqual(Object.keys(now.files()).sort(), ['data', 'data/own.db', 'lib', 'lib/a.js', 'lib/old.js', 'run.js'])
    t.is(now.files()['data/own.db'], 'file 644 older')
    if (turn === 0) await placing.restore(now.swap)
    if (turn === 0) await placing.restore(now.swap)
    if (turn === 0) t.deepEqual(now.files(), before)
  }
  await placing.settle(now.swap)
  await placing.settle(now.swap)
  t.deepEqual(readdirSync(join(volume, 'releases/2')), ['manifest.json'])
  await placing.restore(now.swap) // settled is settled
  t.is(now.files()['data/own.db'], 'file 644 older')
})

test('a restore that will never serve leaves nothing', async t => {
  const volume = ownFolder(t)
  const now = await prepared(volume)
  const before = now.files()
  await placing.place(now.swap)
  await placing.discard(now.swap)
  t.deepEqual(now.files(), before)
  t.false(existsSync(join(volume, 'releases/2')))
})

test('the next push knows which files of a restored tree came from releases, and removes no others', async t => {
  const volume = ownFolder(t)
  const now = await prepared(volume)
  await placing.place(now.swap)
  await placing.settle(now.swap)
  now.bring(3, { 'run.js': 'three', 'lib/a.js': 'a' })
  const placedFiles = await placing.place(now.request(3))
  await placing.settle(now.request(3))
  t.deepEqual(placedFiles, { added: [], modified: ['lib/a.js', 'run.js'], removed: ['lib/old.js'] })
  const files = now.files()
  t.is(files['run.js'], 'file 644 three')
  t.is(files['lib/a.js'], 'file 644 a') // release 1 brought it too: it must not count as the application's own
  t.is(files['data/own.db'], 'file 644 older')
  t.is(files['.replaced/3/lib/a.js'], 'file 644 a before')
})

test('a mount point of the engine and inaccessible files do not obstruct a swap', async t => {
  const now = await prepared(ownFolder(t))
  const { volume } = now.request(1)
  mkdirSync(join(volume, 'files/node_modules')) // by root, as the engine does
  now.write({ 'shut/inner': { text: 'x', mode: 0o000 } })
  chmodSync(join(volume, 'files/shut'), 0o000)
  await placing.place(now.swap)
  await placing.settle(now.swap)
  t.deepEqual(readdirSync(join(volume, 'releases/2')), ['manifest.json'])
})

const acts = {
  place: (volume: string, release: number) => inPlaces(volume, release, true),
  restore: async (volume: string, release: number) => {
    const root = new Tree(volume)
    swapBack(root, { release } as never)
    root.close()
  },
  settle: (volume: string, release: number) => inPlaces(volume, release, false),
}

async function inPlaces(volume: string, number: number, place: boolean): Promise<void> {
  const root = new Tree(volume)
  const request = { volume, release: number, path: '', whole: true, swap: true, owner: null }
  if (place) swapIn(root, request)
  const releases = root.tree('releases')
  const places = { files: root.tree('files'), releases, release: releases.tree(String(number)) }
  if (place) recordSwapped(places, request)
  else await settle(places, request)
  for (const tree of [root, ...Object.values(places)]) tree.close()
}

/** Crashes at the first change, the second, ... until `work` ends. */
async function atEveryChange(
  volume: string,
  before: (volume: string) => Promise<unknown>,
  work: () => Promise<unknown>,
  then: (now: ReturnType<typeof scene>, change: number) => Promise<unknown>,
): Promise<number> {
  for (let change = 1; ; change++) {
    const now = await prepared(volume)
    await before(volume)
    if (await crashAt(change, work)) return change - 1
    await then(now, change)
  }
}

test.serial('killed before any change of the disk, a swap continues or is undone', async t => {
  const volume = ownFolder(t)
  const now = await prepared(volume)
  const before = now.files()
  await acts.place(volume, 2)
  const after = now.files()
  const changes = await atEveryChange(
    volume,
    async () => {},
    () => acts.place(volume, 2),
    async (then, change) => {
      if (change % 2) mkdirSync(join(volume, 'files'), { recursive: true }) // a start ensures its volume
      await acts.place(volume, 2)
      t.deepEqual(then.files(), after, `place, change ${change}`)
      await acts.restore(volume, 2)
      t.deepEqual(then.files(), before, `back, change ${change}`)
    },
  )
  t.true(changes >= 3, `${changes}`)
  await atEveryChange(
    volume,
    async () => {},
    () => acts.place(volume, 2),
    async (then, change) => {
      await acts.restore(volume, 2)
      t.deepEqual(then.files(), before, `change ${change}`)
    },
  )
  const undoing = await atEveryChange(
    volume,
    () => acts.place(volume, 2),
    () => acts.restore(volume, 2),
    async (then, change) => {
      if (change % 2) await acts.place(volume, 2)
      await acts.restore(volume, 2)
      t.deepEqual(then.files(), before, `back, change ${change}`)
    },
  )
  t.true(undoing >= 3, `${undoing}`)
  const settling = await atEveryChange(
    volume,
    () => acts.place(volume, 2),
    () => acts.settle(volume, 2),
    async (then, change) => {
      // Continued or undone completely, never something in between.
      if (existsSync(join(volume, 'releases/2/before'))) {
        await acts.restore(volume, 2)
        t.deepEqual(then.files(), before, `settle, change ${change}`)
        return
      }
      await acts.restore(volume, 2)
      await acts.settle(volume, 2)
      t.deepEqual(then.files(), after, `settle, change ${change}`)
      t.deepEqual(readdirSync(join(volume, 'releases/2')), ['manifest.json'])
    },
  )
  t.true(settling >= 3, `${settling}`)
})
