import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { placeFirst } from '../../../activities/placement/first.ts'
import { place } from '../../../activities/placement/place.ts'
import type { PlacedFiles } from '../../../activities/placement/port.ts'
import { settle } from '../../../activities/placement/settle.ts'
import { restore } from '../../../activities/placement/undo.ts'
import { Tree } from '../../../lib/folders/tree.ts'
import { crashAt } from '../../kit/crash/crash-point.ts'
import { type Contents, lay, ownFolder, seen } from '../../kit/folders.ts'
import { systemCalls } from '../../kit/system-calls.ts'

const first: Contents = {
  'same.txt': 'same',
  'changed.txt': 'one',
  'gone/deep/old.txt': 'old',
  'gone/older.txt': 'old',
  'file-to-folder': 'file',
  'folder-to-file/a': 'a',
  'folder-to-file/b/c': 'c',
  'link-to-file': { link: 'changed.txt' },
  'file-to-link': 'file',
  'link-to-folder': { link: 'gone' },
  'closed/changed.txt': 'one',
  'closed/gone.txt': 'old',
  'closed/inner/gone.txt': 'old',
  'closed-to-file/a': 'a',
  __proto__x: 'one',
  7: 'seven',
}
const written: Contents = { 'own.db': 'own', 'folder-to-file/own': 'own', 'conflict.txt': 'own' }
const second: Contents = {
  'same.txt': 'same',
  'changed.txt': 'two',
  'file-to-folder/inner/x': 'x',
  'folder-to-file': { text: 'file', mode: 0o750 },
  'link-to-file': 'file',
  'file-to-link': { link: 'nowhere' },
  'link-to-folder/y': 'y',
  'conflict.txt': 'two',
  'new/empty': null,
  'new/n.txt': '',
  'closed/changed.txt': 'two',
  'closed/new.txt': 'new',
  'closed-to-file': 'file',
  __proto__x: 'two',
}

/** Folders that the application has made inaccessible since, outer ones last. */
const closed = ['closed/inner', 'closed', 'closed-to-file', '']

const third: Contents = { 'same.txt': 'same', 'changed.txt': 'one', 'folder-to-file/a': 'a', 'third.txt': 'three' }

/** A volume whose first release runs and has written, and whose second one waits. */
async function scene(volume: string, whole: boolean, brought: readonly [Contents, Contents] = [first, second]) {
  rmSync(volume, { recursive: true, force: true })
  const request = (release: number) => ({ volume, release, path: '', whole, owner: null })
  mkdirSync(join(volume, 'files'), { recursive: true })
  lay(join(volume, 'releases/1/source'), brought[0])
  await placeFirst(request(1))
  const open = async <T>(
    release: number,
    work: (places: { files: Tree; releases: Tree; release: Tree }) => Promise<T>,
  ) => {
    const root = new Tree(volume)
    const releases = root.tree('releases')
    const places = { files: root.tree('files'), releases, release: releases.tree(String(release)) }
    const result = await work(places)
    for (const tree of [root, ...Object.values(places)]) tree.close()
    return result
  }
  await open(1, places => settle(places, request(1)))
  lay(join(volume, 'files'), written)
  lay(join(volume, 'releases/2/source'), brought[1])
  for (const name of closed) if (existsSync(join(volume, 'files', name))) chmodSync(join(volume, 'files', name), 0o555)
  return {
    place: () => open(2, places => place(places, request(2))),
    restore: () => open(2, places => restore(places, request(2))),
    bringThird: () => lay(join(volume, 'releases/3/source'), third),
    /** The third release; `withoutSecond` as if there had been no second one. */
    async placeThird({ withoutSecond = false } = {}) {
      if (withoutSecond) rmSync(join(volume, 'releases/2'), { recursive: true })
      return open(3, places => place(places, request(3)))
    },
    /** The first change of its undo. */
    unmark: () => rmSync(join(volume, 'releases/2/manifest.json')),
    settle: () => open(2, places => settle(places, request(2))),
    files: (): Record<string, string> => ({
      '': (statSync(join(volume, 'files')).mode & 0o777).toString(8),
      ...seen(join(volume, 'files')),
    }),
    source: () => seen(join(volume, 'releases/2/source')),
    journalled: () => existsSync(join(volume, 'releases/2/journal')),
  }
}

type Scene = Awaited<ReturnType<typeof scene>>

/** Crashes at the first change, the second, ... until `work` ends. */
async function atEveryChange(
  volume: string,
  whole: boolean,
  work: (scene: Scene) => Promise<unknown>,
  then: (scene: Scene, change: number) => Promise<void>,
  before: (scene: Scene) => Promise<unknown> = async () => {},
): Promise<number> {
  for (let change = 1; ; change++) {
    const now = await scene(volume, whole)
    await before(now)
    if (await crashAt(change, () => work(now))) return change - 1
    await then(now, change)
  }
}

for (const whole of [true, false]) {
  const kind = whole ? 'a push' : 'an upload'

  async function expected(t: ExecutionContext) {
    const volume = ownFolder(t)
    const now = await scene(volume, whole)
    const start = { files: now.files(), source: now.source() }
    const placedFiles: PlacedFiles = await now.place()
    return { volume, start, placedFiles, placed: now.files() }
  }

  test.serial(`${kind}: killed before any change of the disk, placing continues or is undone`, async t => {
    const { volume, start, placedFiles, placed } = await expected(t)
    const onwards = await atEveryChange(
      volume,
      whole,
      now => now.place(),
      async (now, change) => {
        t.deepEqual(await now.place(), placedFiles, `change ${change}`)
        t.deepEqual(now.files(), placed, `change ${change}`)
      },
    )
    await atEveryChange(
      volume,
      whole,
      now => now.place(),
      async (now, change) => {
        await now.restore()
        t.deepEqual(now.files(), start.files, `change ${change}`)
        t.deepEqual(now.source(), start.source, `change ${change}`)
        await now.place()
        t.deepEqual(now.files(), placed, `change ${change}`)
      },
    )
    t.true(onwards > 20, `${onwards} changes`)
  })

  test.serial(`${kind}: killed before any change of the disk, an undo continues or is itself undone`, async t => {
    const { volume, start, placed } = await expected(t)
    const changes = await atEveryChange(
      volume,
      whole,
      now => now.restore(),
      async (now, change) => {
        if (change % 2) {
          await now.place()
          t.deepEqual(now.files(), placed, `change ${change}`)
        }
        await now.restore()
        t.deepEqual(now.files(), start.files, `change ${change}`)
        t.deepEqual(now.source(), start.source, `change ${change}`)
      },
      now => now.place(),
    )
    t.true(changes > 10, `${changes} changes`)
  })

  test.serial(
    `${kind}: given up before any change of the disk, it is taken back by the next one, killed or not`,
    async t => {
      const volume = ownFolder(t)
      const never = await scene(volume, whole)
      never.bringThird()
      const placedFiles = await never.placeThird({ withoutSecond: true })
      const expected = never.files()
      const changes = await atEveryChange(
        volume,
        whole,
        now => now.place(),
        async (now, change) => {
          now.bringThird()
          t.deepEqual(await now.placeThird(), placedFiles, `change ${change}`)
          t.deepEqual(now.files(), expected, `change ${change}`)
        },
      )
      const onwards = await atEveryChange(
        volume,
        whole,
        now => now.placeThird(),
        async (now, change) => {
          await now.placeThird()
          t.deepEqual(now.files(), expected, `change ${change} of the next one`)
        },
        async now => {
          await now.place()
          now.unmark()
          now.bringThird()
        },
      )
      t.true(changes > 20 && onwards > 10, `${changes} and ${onwards} changes`)
    },
  )

  test.serial(`${kind}: killed before any change of the disk, settling has the same result`, async t => {
    const { volume } = await expected(t)
    const whole1 = await scene(volume, whole)
    await whole1.place()
    await whole1.settle()
    const settled = whole1.files()
    t.is(settled['.replaced/2/conflict.txt'], 'file 644 own')
    t.is(settled['.replaced/2/folder-to-file/own'], 'file 644 own')
    t.false(Object.keys(settled).includes('.replaced/2/changed.txt'))
    const changes = await atEveryChange(
      volume,
      whole,
      now => now.settle(),
      async (now, change) => {
        await now.settle()
        t.deepEqual(now.files(), settled, `change ${change}`)
        t.false(now.journalled())
      },
      now => now.place(),
    )
    t.true(changes > 5, `${changes} changes`)
  })
}

test.serial(
  '256 changes wait for the disk once, and a file costs as many system calls among many as among few',
  async t => {
    const volume = ownFolder(t)
    const costs = async (count: number, syncs: number) => {
      const contents = (text: string): Contents =>
        Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n % 10}/${n}`, `${text} ${n}`]))
      const now = await scene(volume, true, [contents('one'), contents('two')])
      const [placed, restored] = [await systemCalls(now.place), await systemCalls(now.restore)]
      t.deepEqual([placed.fdatasyncSync, restored.fdatasyncSync], [count / 256, undefined], `${count} files`)
      t.deepEqual([placed.fsyncSync, restored.fsyncSync], [syncs, undefined], `${count} files`)
      return [placed, restored].map(calls => Object.values(calls).reduce((sum, some) => sum + some) / count)
    }
    // Plan and manifest, and of many files also the parts of the manifest and their names.
    const [few, many] = [await costs(512, 2), await costs(4096, 2 + 6 + 1)]
    for (const [n, calls] of many.entries()) t.true(calls < few[n]! * 1.1, `${calls} calls for a file, not ${few[n]}`)
  },
)

test.serial('changes of the application while placing is suspended are never lost', async t => {
  const volume = ownFolder(t)
  const files = join(volume, 'files')
  await atEveryChange(
    volume,
    true,
    now => now.place(),
    async (now, change) => {
      // The old version still runs: it replaces a file atomically, as careful programs do.
      lay(files, { 'own.tmp': `newer ${change}` })
      renameSync(join(files, 'own.tmp'), join(files, 'own.db'))
      lay(files, { 'other.tmp': `newer ${change}` })
      renameSync(join(files, 'other.tmp'), join(files, 'conflict.txt'))
      if (change % 2) {
        await now.restore()
        const found = JSON.stringify(now.files())
        t.is(now.files()['own.db'], `file 644 newer ${change}`)
        t.true(found.includes(`"file 644 newer ${change}"`), `change ${change}`)
      } else {
        await now.place()
        await now.settle()
        const kept = Object.entries(now.files()).filter(([, what]) => what === `file 644 newer ${change}`)
        t.true(kept.length >= 2, `change ${change}: ${kept.map(([name]) => name)}`)
      }
    },
  )
})
