import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { type Manifest, manifestBefore, readManifest, writeManifest } from '../../../activities/placement/manifest.ts'
import { place } from '../../../activities/placement/place.ts'
import { sectionSizes } from '../../../activities/placement/sections.ts'
import { settle } from '../../../activities/placement/settle.ts'
import type { ReleasedFile, Sources } from '../../../activities/placement/sources.ts'
import { restore } from '../../../activities/placement/undo.ts'
import { Tree } from '../../../lib/folders/tree.ts'
import { crashAt } from '../../kit/crash/crash-point.ts'
import { lay, ownFolder } from '../../kit/folders.ts'

const builtin = createRequire(import.meta.url)('node:fs') as typeof fs

type Texts = Map<string, string>

/** A volume whose releases are placed in this process. */
function volumeOf(t: ExecutionContext) {
  const volume = ownFolder(t)
  mkdirSync(join(volume, 'files'))
  mkdirSync(join(volume, 'releases'))
  const root = (release: number) => join(volume, 'releases', String(release))
  async function open<T>(release: number, work: (places: { files: Tree; releases: Tree; release: Tree }) => T) {
    const tree = new Tree(volume)
    const releases = tree.tree('releases')
    const places = { files: tree.tree('files'), releases, release: releases.tree(String(release)) }
    try {
      return await work(places)
    } finally {
      for (const each of [tree, ...Object.values(places)]) each.close()
    }
  }
  const request = (release: number, whole: boolean) => ({ volume, release, path: '', whole, owner: null })
  return {
    root,
    open,
    bring: (release: number, texts: Texts) => lay(join(root(release), 'source'), Object.fromEntries(texts)),
    place: (release: number, whole: boolean) => open(release, places => place(places, request(release, whole))),
    restore: (release: number) => open(release, places => restore(places, request(release, false))),
    settle: (release: number) => open(release, places => settle(places, request(release, false))),
    manifest: <T>(release: number, look: (manifest: Manifest) => T) =>
      open(release, ({ releases, files }) => look(manifestBefore(releases, files, release + 1))),
  }
}

/** Names in folders, spread over the whole order of names. */
const nameOf = (n: number): string => `${'abcdefghij'[n % 10]}/${(n * 7919) % 100}/file ${n}`
const textsOf = (numbers: readonly number[], text: string): Texts =>
  new Map(numbers.map(n => [nameOf(n), `${text} ${n}`]))
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n)
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** The same numbers for the same seed. */
function randomOf(seed: number) {
  let state = seed
  return (below: number): number => {
    state = (state * 1664525 + 1013904223) % 2 ** 32
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Whether a manifest says exactly this of every file, read as a whole and by name. */
function assertEqual(t: ExecutionContext, manifest: Manifest, texts: Texts, where: string): void {
  const hashes = new Map([...manifest.all().files].map(([path, file]) => [path, file.hash]))
  t.deepEqual(
    hashes,
    new Map([...texts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, text]) => [path, hashOf(text)])),
    where,
  )
  const folders = [...texts.keys()].flatMap(path => [path.split('/')[0]!, path.slice(0, path.lastIndexOf('/'))])
  t.deepEqual([...manifest.all().folders.keys()], [...new Set(folders)].sort(), where)
  const wrong = [...texts.keys()].filter(path => manifest.file(path)?.hash !== hashes.get(path))
  t.deepEqual(wrong, [], where)
  t.is(manifest.file('no such file'), undefined)
  t.is(manifest.file(''), undefined)
}

for (const seed of [1, 2])
  test.serial(
    `a manifest equals a plain map after random releases, undos, settlings and kills, seed ${seed}`,
    async t => {
      const random = randomOf(seed)
      const volume = volumeOf(t)
      let [texts, sections] = [new Map() as Texts, 0]
      for (let release = 1; release <= 14; release++) {
        const whole = release % 4 === 1
        const count = whole ? 2500 + random(2500) : 1 + random(60)
        const offset = whole ? 0 : random(5000)
        // Most files of a push are as they were.
        const numbers = upTo(count).map(n => n + offset)
        const brought = new Map(
          numbers.map(n => [nameOf(n), random(10) > 0 ? (texts.get(nameOf(n)) ?? `new ${n}`) : `${release} ${n}`]),
        )
        volume.bring(release, brought)
        const after: Texts = whole ? brought : new Map([...texts, ...brought])
        for (let kill = random(3); kill > 0; kill--) {
          await crashAt(1 + random(60), () => volume.place(release, whole))
          if (random(2)) await volume.restore(release)
        }
        await volume.place(release, whole)
        await volume.manifest(release, manifest => assertEqual(t, manifest, after, `release ${release}`))
        if (random(3) === 0) {
          await crashAt(1 + random(60), () => volume.restore(release))
          await volume.restore(release)
          await volume.manifest(release, manifest => assertEqual(t, manifest, texts, `release ${release} undone`))
          continue
        }
        if (random(3) > 0) {
          await crashAt(1 + random(60), () => volume.settle(release))
          await volume.settle(release)
        }
        texts = after
        sections = Math.max(sections, await volume.manifest(release, manifest => manifest.sections.length))
      }
      t.true(sections > 2, `${sections} sections`)
    },
  )

const described = (hash: string): ReleasedFile => ({ link: false, size: 1, mtime: 1, ino: 1, mode: 0o644, hash })
const sourcesOf = (numbers: readonly number[], hash: string): Sources => ({
  folders: new Map(),
  files: new Map(numbers.map(n => [nameOf(n), described(hash)])),
})
const noNames = { added: [], modified: [], removed: [] }

/** A volume with a manifest of 5000 files as release 1, and a function that writes the one after a change of one file. */
async function written(t: ExecutionContext) {
  const volume = volumeOf(t)
  for (const release of [1, 2]) mkdirSync(volume.root(release))
  await volume.open(1, ({ releases }) => writeManifest(releases, 1, noNames, { content: sourcesOf(upTo(5000), 'one') }))
  const change = () =>
    volume.open(2, ({ releases, files }) =>
      writeManifest(releases, 2, noNames, {
        changes: sourcesOf([77], 'two'),
        before: readManifest(releases, files, 1)!,
      }),
    )
  const assertWritten = () =>
    volume.manifest(2, manifest => {
      const hashes = [...manifest.all().files].map(([path, { hash }]) => [path, hash])
      t.deepEqual(new Map(hashes as [string, string][]).size, 5000)
      t.deepEqual(
        hashes.filter(([, hash]) => hash !== 'one'),
        [[nameOf(77), 'two']],
      )
    })
  return { volume, change, assertWritten }
}

test.serial(
  'killed before any change of the disk, a manifest is missing or whole, and can be written again',
  async t => {
    const { volume, change, assertWritten } = await written(t)
    let changes = 0
    for (let isDone = false; !isDone; changes++) {
      isDone = await crashAt(changes + 1, change)
      if (isDone) await assertWritten()
      t.is(existsSync(join(volume.root(2), 'manifest.json')), isDone)
      // The others are killed at the folder that the one before left.
      if (changes % 3 === 0) fs.rmSync(join(volume.root(2), 'sections'), { recursive: true, force: true })
      fs.rmSync(join(volume.root(2), 'manifest.json'), { force: true })
    }
    t.true(changes > 10, `${changes} changes`)
    await change()
    await assertWritten()
  },
)

test.serial('without hard links the parts of a manifest are copied', async t => {
  const { volume, change, assertWritten } = await written(t)
  const { linkSync } = builtin
  builtin.linkSync = () => {
    throw Object.assign(new Error('not permitted'), { code: 'EPERM' })
  }
  syncBuiltinESMExports()
  try {
    await change()
  } finally {
    Object.assign(builtin, { linkSync })
    syncBuiltinESMExports()
  }
  await assertWritten()
  for (const name of readdirSync(join(volume.root(2), 'sections')))
    t.is(statSync(join(volume.root(2), 'sections', name)).nlink, 1)
})

/** Bytes that `work` reads from and writes to whole files. */
async function bytesOf(work: () => Promise<unknown>): Promise<{ read: number; written: number }> {
  const { readFileSync: readSync, writeFileSync: writeSync } = builtin
  const bytes = { read: 0, written: 0 }
  Object.assign(builtin, {
    readFileSync(...args: Parameters<typeof readSync>) {
      const content = readSync(...args)
      bytes.read += content.length
      return content
    },
    writeFileSync(...args: Parameters<typeof writeSync>) {
      bytes.written += (args[1] as string).length
      writeSync(...args)
    },
  })
  syncBuiltinESMExports()
  try {
    await work()
    return bytes
  } finally {
    Object.assign(builtin, { readFileSync: readSync, writeFileSync: writeSync })
    syncBuiltinESMExports()
  }
}

test.serial('a commit of one file among 20,000 reads and writes as much as one section of the manifest', async t => {
  const volume = volumeOf(t)
  volume.bring(1, textsOf(upTo(20_000), 'one'))
  await volume.place(1, true)
  await volume.settle(1)
  const whole = readdirSync(join(volume.root(1), 'sections')).reduce(
    (sum, name) => sum + statSync(join(volume.root(1), 'sections', name)).size,
    0,
  )
  t.true(whole > 3_000_000, `${whole} bytes of a whole manifest`)
  for (let release = 2; release < 5; release++) {
    volume.bring(release, textsOf([release], `release ${release}`))
    const placed = await bytesOf(() => volume.place(release, false))
    const settled = await bytesOf(() => volume.settle(release))
    for (const { read, written } of [placed, settled])
      t.true(read < 400_000 && written < 400_000, `${read} bytes read, ${written} written`)
    const sections = join(volume.root(release), 'sections')
    const own = readdirSync(sections).filter(name => statSync(join(sections, name)).nlink === 1)
    t.is(own.length, 1)
  }
})

test.serial('a push of 5,000 files of which one has changed writes one section of the manifest', async t => {
  const volume = volumeOf(t)
  const texts = textsOf(upTo(5000), 'one')
  volume.bring(1, texts)
  await volume.place(1, true)
  await volume.settle(1)
  volume.bring(2, new Map([...texts, [nameOf(5), 'two']]))
  await volume.place(2, true)
  const sections = join(volume.root(2), 'sections')
  t.is(readdirSync(sections).filter(name => statSync(join(sections, name)).nlink === 1).length, 1)
})

test.serial('names that come and go leave no parts of a few names, and none of too many', async t => {
  const volume = volumeOf(t)
  for (const release of [1, 2, 3]) mkdirSync(volume.root(release))
  const write = (release: number, numbers: readonly number[]) =>
    volume.open(release, ({ releases, files }) =>
      writeManifest(releases, release, noNames, {
        content: sourcesOf(numbers, 'one'),
        before: manifestBefore(releases, files, release),
      }),
    )
  const sizes = (release: number) =>
    volume.manifest(release, ({ sections }) => sections.map(each => each.read().files.size))
  await write(1, upTo(8000))
  await write(
    2,
    upTo(8000).filter(n => n % 10 === 0),
  )
  const few = await sizes(2)
  t.is(
    few.reduce((sum, size) => sum + size),
    800,
  )
  t.true(
    few.slice(1).every(size => size >= sectionSizes.min),
    `${few}`,
  )
  await write(3, upTo(12_000))
  const many = await sizes(3)
  t.is(
    many.reduce((sum, size) => sum + size),
    12_000,
  )
  t.true(
    many.every(size => size <= sectionSizes.max),
    `${many}`,
  )
})

test.serial('a manifest of an older version, in one file, is continued, undone and settled', async t => {
  const volume = volumeOf(t)
  const texts = textsOf(upTo(3000), 'one')
  volume.bring(1, texts)
  await volume.place(1, true)
  await volume.settle(1)
  const { folders, files } = await volume.manifest(1, manifest => manifest.all())
  const older = JSON.stringify({ placed: noNames, folders: [...folders], files: [...files] })
  fs.rmSync(join(volume.root(1), 'sections'), { recursive: true })
  writeFileSync(join(volume.root(1), 'manifest.json'), older)
  await volume.manifest(1, manifest => assertEqual(t, manifest, texts, 'older'))
  const change: Texts = new Map([[nameOf(3), 'two']])
  volume.bring(2, change)
  await volume.place(2, false)
  await volume.manifest(2, manifest => assertEqual(t, manifest, new Map([...texts, ...change]), 'continued'))
  await volume.restore(2)
  await volume.manifest(2, manifest => assertEqual(t, manifest, texts, 'undone'))
  await volume.place(2, false)
  await volume.settle(2)
  t.is(readFileSync(join(volume.root(1), 'manifest.json'), 'utf8'), older)
  volume.bring(3, new Map([[nameOf(3), 'two']]))
  const placed = await volume.place(3, true)
  t.is(placed.removed.length, 300)
  await volume.settle(3)
  await volume.manifest(3, manifest => assertEqual(t, manifest, change, 'pushed'))
  t.deepEqual(readdirSync(volume.root(3)), ['manifest.json'])
})
