import { fork } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { PlacementRefused } from '../../../activities/placement/port.ts'
import { placement } from '../../../activities/placement/process.ts'
import { type Contents, give, lay, ownFolder, seen } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'

const uid = process.getuid?.() === 0 ? 10_777 : null
const owner = uid === null ? null : { uid, gid: uid }
const placing = placement()

/** A volume with its first release placed and settled, and functions to continue from there. */
async function volumeWith(t: ExecutionContext, first: Contents) {
  const volume = ownFolder(t)
  const files = join(volume, 'files')
  const root = (number: number) => join(volume, 'releases', String(number))
  mkdirSync(files)
  if (uid !== null) chownSync(files, uid, uid)
  const request = (release: number, changes = {}) => ({ volume, release, path: '', whole: true, owner, ...changes })
  const bring = (number: number, contents: Contents) => {
    lay(join(root(number), 'source'), contents)
    if (uid !== null) give(root(number), uid)
  }
  const write = (contents: Contents) => {
    lay(files, contents)
    if (uid !== null) for (const name of Object.keys(contents)) give(join(files, name.split('/')[0]!), uid)
  }
  bring(1, first)
  const placedFiles = await placing.place(request(1))
  return { volume, files, root, request, bring, write, placedFiles, settleFirst: () => placing.settle(request(1)) }
}

const later = () => sleep(30) // clocks of file systems tick in 4 to 10 ms

test('a first release is one rename, and may be repeated and undone', async t => {
  const first = { 'a.txt': 'a', 'inner/b.txt': 'b', empty: '' }
  const { files, request, placedFiles, root, settleFirst } = await volumeWith(t, first)
  t.deepEqual(placedFiles, { added: ['a.txt', 'empty', 'inner/b.txt'], modified: [], removed: [] })
  t.deepEqual(await placing.place(request(1)), placedFiles)
  t.false(existsSync(join(root(1), 'source')))
  const there = seen(files)
  await placing.restore(request(1))
  t.deepEqual(seen(files), {})
  await placing.place(request(1))
  t.deepEqual(seen(files), there)
  await settleFirst()
  await placing.restore(request(1)) // settled is settled
  t.deepEqual(seen(files), there)
})

test('the file list of a first release comes from its sources, whatever its program has changed since', async t => {
  const { files, request, placedFiles } = await volumeWith(t, { 'a.txt': 'a', 'inner/b.txt': 'b' })
  renameSync(join(files, 'inner'), join(files, 'other'))
  unlinkSync(join(files, 'a.txt'))
  symlinkSync('/etc', join(files, 'a.txt'))
  t.deepEqual(await placing.place(request(1)), placedFiles)
})

test('the file list of a first release with endless files is bounded', async t => {
  const many = Object.fromEntries(Array.from({ length: 400 }, (_, number) => [`d/${number}`, '']))
  const { placedFiles } = await volumeWith(t, { ...many, [`${'x/'.repeat(300)}deep`]: '' })
  t.true(placedFiles.added.length <= 300 && !placedFiles.added.some(path => path.endsWith('deep')))
})

test('a child that exceeds its limit is ended, and the release can be placed later', async t => {
  const { request, bring, files } = await volumeWith(t, { 'a.txt': 'a' })
  bring(2, { 'a.txt': 'b' })
  const small = placement({ seconds: 60, memoryBytes: 1 })
  await t.throwsAsync(small.place(request(2)), { instanceOf: PlacementRefused, message: /too many files/ })
  await t.throwsAsync(small.restore(request(2)), { name: 'Error', message: /too many files/ })
  await placing.place(request(2))
  t.is(readFileSync(join(files, 'a.txt'), 'utf8'), 'b')
})

test('a push adds, changes and removes files of releases, and leaves the application’s own', async t => {
  const { files, request, bring, write, settleFirst } = await volumeWith(t, {
    'same.txt': 'same',
    'changed.txt': 'one',
    'old/gone.txt': 'gone',
    'old/deep/gone.txt': 'gone',
    'rewritten.txt': 'one',
    'kept.txt': 'kept',
  })
  await settleFirst()
  await later()
  write({ 'data/own.db': 'own', 'rewritten.txt': 'by the application', 'old/deep/own.txt': 'own' })
  bring(2, {
    'same.txt': 'same',
    'changed.txt': 'two',
    'rewritten.txt': 'one',
    'kept.txt': { text: 'kept', mode: 0o755 },
    'neu/ünï-日本.txt': 'new',
    'neu/nichts': '',
    'neu/leer': null,
    link: { link: 'changed.txt' },
  })
  const placedFiles = await placing.place(request(2))
  t.deepEqual(placedFiles, {
    added: ['link', 'neu/nichts', 'neu/ünï-日本.txt'],
    modified: ['changed.txt', 'kept.txt'],
    removed: ['old/gone.txt', 'old/deep/gone.txt'].sort(),
  })
  t.deepEqual(await placing.place(request(2)), placedFiles)
  const latin = (text: string) => Buffer.from(text).toString('latin1')
  const expected = {
    'same.txt': 'file 644 same',
    'changed.txt': 'file 644 two',
    'rewritten.txt': 'file 644 by the application',
    'kept.txt': 'file 755 kept',
    [latin('neu/ünï-日本.txt')]: 'file 644 new',
    'neu/nichts': 'file 644 ',
    'neu/leer': 'folder 755',
    neu: 'folder 755',
    link: 'link changed.txt',
    data: 'folder 755',
    'data/own.db': 'file 644 own',
    old: 'folder 755',
    'old/deep': 'folder 755',
    'old/deep/own.txt': 'file 644 own',
  }
  t.deepEqual(seen(files), expected)
  await placing.settle(request(2))
  t.deepEqual(seen(files), expected)
})

test('a file that both changed becomes the push’s, and the application’s version is retained', async t => {
  const { files, request, bring, write } = await volumeWith(t, { 'state.json': 'one', 'run.js': 'one' })
  await later()
  write({ 'state.json': 'by the application', 'notes/today': 'by the application' })
  bring(2, { 'state.json': 'two', 'run.js': 'two', notes: 'a file now' })
  await placing.place(request(2))
  await placing.settle(request(2))
  t.deepEqual(seen(files), {
    'state.json': 'file 644 two',
    'run.js': 'file 644 two',
    notes: 'file 644 a file now',
    '.replaced': 'folder 755',
    '.replaced/2': 'folder 755',
    '.replaced/2/state.json': 'file 644 by the application',
    '.replaced/2/notes': 'folder 755',
    '.replaced/2/notes/today': 'file 644 by the application',
  })
})

test('folders that an application made inaccessible are opened for a release and its undo, and get their modes back', async t => {
  const { files, request, bring, settleFirst } = await volumeWith(t, {
    'closed/a.txt': 'one',
    'closed/gone.txt': 'one',
    'sealed/inner/b.txt': 'one',
    'blind/c.txt': 'one',
    'becomes-a-file/x': 'one',
  })
  await settleFirst()
  const close = () => {
    for (const [name, mode] of Object.entries(modes))
      if (statSync(join(files, name)).isDirectory()) chmodSync(join(files, name), mode)
  }
  const modes = {
    blind: 0o600,
    'becomes-a-file': 0o555,
    'sealed/inner': 0o000,
    sealed: 0o111,
    closed: 0o555,
    '.': 0o555,
  }
  close()
  const [before, mode] = [seen(files), statSync(files).mode]
  const second = { 'closed/a.txt': 'two', 'sealed/inner/b.txt': 'two', 'blind/c.txt': 'two', 'becomes-a-file': 'two' }
  bring(2, second)
  for (let turn = 0; turn < 2; turn++) {
    const placedFiles = await placing.place(request(2))
    t.deepEqual(placedFiles.removed, ['closed/gone.txt'])
    t.like(seen(files), {
      closed: 'folder 555',
      'closed/a.txt': 'file 644 two',
      sealed: 'folder 111',
      'sealed/inner': 'folder 0',
      'sealed/inner/b.txt': 'file 644 two',
      blind: 'folder 600',
      'becomes-a-file': 'file 644 two',
    })
    t.is(statSync(files).mode, mode)
    // The new version makes files of the release inaccessible before it fails its gate.
    close()
    if (turn === 0) await placing.restore(request(2))
    if (turn === 0) t.deepEqual(seen(files), before)
    t.is(statSync(files).mode, mode)
  }
  await placing.settle(request(2))
  t.is(seen(files)['sealed/inner'], 'folder 0')
})

test('an upload goes where it is sent, changes nothing else, and the next push treats it as a release', async t => {
  const { files, request, bring } = await volumeWith(t, { 'a.txt': 'a', 'docs/old.txt': 'old' })
  bring(2, { 'new.txt': 'new', 'a.txt': 'inner' })
  const placedFiles = await placing.place(request(2, { whole: false, path: 'docs/2026' }))
  t.deepEqual(placedFiles, { added: ['docs/2026/a.txt', 'docs/2026/new.txt'], modified: [], removed: [] })
  await placing.settle(request(2, { whole: false, path: 'docs/2026' }))
  bring(3, { 'a.txt': 'b' })
  const pushed = await placing.place(request(3))
  t.deepEqual(pushed.removed, ['docs/2026/a.txt', 'docs/2026/new.txt', 'docs/old.txt'])
  t.deepEqual(seen(files), { 'a.txt': 'file 644 b' })
  await t.throwsAsync(placing.place(request(4, { path: '../../etc' })), { message: /not a folder/ })
})

test('files that a new version wrote before it failed its gate are not lost when the old one comes back', async t => {
  const { files, request, bring, write } = await volumeWith(t, { 'app.js': 'one', 'db.json': '{}' })
  await placing.settle(request(1))
  bring(2, { 'app.js': 'two', 'db.json': '{"v":2}', 'seed.json': '[]', 'untouched.txt': 'x' })
  await placing.place(request(2))
  await later()
  write({ 'db.json': 'written by two', 'seed.json': 'written by two', 'log/two.txt': 'written by two' })
  await placing.restore(request(2))
  const back = {
    'app.js': 'file 644 one',
    'db.json': 'file 644 {}',
    'seed.json': 'file 644 written by two',
    log: 'folder 755',
    'log/two.txt': 'file 644 written by two',
    '.replaced': 'folder 755',
    '.replaced/2': 'folder 755',
    '.replaced/2/db.json': 'file 644 written by two',
  }
  t.deepEqual(seen(files), back)
  await placing.discard(request(2))
  t.deepEqual(seen(files), back)
})

test('the next release undoes one whose undo was given up, except for the application’s later changes', async t => {
  const { volume, files, root, request, bring, write, settleFirst } = await volumeWith(t, {
    'docs/code.js': 'one',
    'docs/more.js': 'one',
    'docs/state.json': 'one',
    'docs/notes.json': 'one',
  })
  await settleFirst()
  await later()
  write({ 'docs/notes.json': 'by the application' })
  // An upload into a folder: only its records say where it went.
  bring(2, { 'code.js': 'two', 'more.js': 'two', 'state.json': 'two', 'notes.json': 'two', 'new.js': 'two' })
  await placing.place(request(2, { whole: false, path: 'docs' }))
  unlinkSync(join(root(2), 'manifest.json')) // the first change of the undo
  await later()
  write({ 'docs/state.json': 'later', 'docs/notes.json': 'later' })
  const third = { 'docs/code.js': 'one', 'docs/more.js': 'three', 'docs/state.json': 'one', 'docs/notes.json': 'one' }
  bring(3, third)
  const placedFiles = { added: [], modified: ['docs/more.js'], removed: [] }
  t.deepEqual(await placing.place(request(3)), placedFiles)
  t.deepEqual(await placing.place(request(3)), placedFiles)
  const expected = {
    docs: 'folder 755',
    'docs/code.js': 'file 644 one',
    'docs/more.js': 'file 644 three',
    'docs/state.json': 'file 644 later',
    'docs/notes.json': 'file 644 later',
    '.replaced': 'folder 755',
    '.replaced/2': 'folder 755',
    '.replaced/2/docs': 'folder 755',
    '.replaced/2/docs/notes.json': 'file 644 by the application',
  }
  t.deepEqual(seen(files), expected)
  await placing.settle(request(3))
  t.deepEqual(seen(files), expected)
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['1', '3'])
})

test('the application’s files that a release replaced are retained even if it was never settled', async t => {
  const { files, request, bring, write, settleFirst } = await volumeWith(t, { 'state.json': 'one' })
  await settleFirst()
  await later()
  write({ 'state.json': 'by the application' })
  for (const release of [2, 3, 4]) {
    bring(release, { 'state.json': String(release) })
    await placing.place(request(release))
    if (release > 2) await placing.settle(request(release))
  }
  t.deepEqual(seen(files), {
    'state.json': 'file 644 4',
    '.replaced': 'folder 755',
    '.replaced/2': 'folder 755',
    '.replaced/2/state.json': 'file 644 by the application',
  })
})

test('folders of the current and the previous release are retained, older and discarded ones are removed', async t => {
  const { root, request, bring, volume } = await volumeWith(t, { a: '1' })
  for (const release of [2, 3, 4, 5]) {
    bring(release, { a: String(release) })
    lay(join(root(release), 'dependencies'), { 'left-pad/index.js': 'x' })
    if (uid !== null) give(root(release), uid)
    await placing.place(request(release))
    if (release === 3) await placing.discard(request(release))
    else await placing.settle(request(release))
  }
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['4', '5'])
  t.deepEqual(readdirSync(root(5)).sort(), ['dependencies', 'manifest.json'])
  t.is(readFileSync(join(volume, 'files/a'), 'utf8'), '5')
})

test('files that an application cannot remove are removed by the host and reported, and retain no older release', async t => {
  demandRoot()
  const { root, request, bring, volume, settleFirst } = await volumeWith(t, { a: '1' })
  await settleFirst()
  const warnings: { release?: number; fault?: string }[] = []
  const reporting = placement({ warn: facts => void warnings.push(facts) })
  for (const release of [2, 3, 4, 5]) {
    bring(release, { a: String(release) })
    await placing.place(request(release))
  }
  lay(join(root(3), 'install'), { 'vendor/a.tgz': 'x' }) // belongs to root
  await reporting.settle(request(5))
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['4', '5'])
  t.deepEqual(
    warnings.map(({ release, fault }) => [release, fault?.split(':')[0]]),
    [[3, 'EACCES']],
  )
  bring(6, { a: '6' })
  lay(join(root(6), 'install'), { 'vendor/a.tgz': 'x' })
  await reporting.discard(request(6))
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['4', '5'])
  t.is(warnings.length, 2)
})

test('dependencies that are half removed are not there for a later release', async t => {
  demandRoot()
  const { root, request, bring, settleFirst } = await volumeWith(t, { a: '1' })
  await settleFirst()
  const left: string[][] = []
  const reporting = placement({ warn: () => void left.push(readdirSync(root(2))) })
  for (const release of [2, 3, 4]) {
    bring(release, { a: String(release) })
    await placing.place(request(release))
  }
  lay(join(root(2), 'dependencies'), { 'left-pad/index.js': 'x' }) // belongs to root
  await reporting.settle(request(4))
  t.true(left[0]?.includes('dropped'))
  t.false(left[0]?.includes('dependencies'))
})

test('a release whose dependencies a later one uses is retained as long as that one', async t => {
  const { root, request, bring, volume } = await volumeWith(t, { a: '1' })
  lay(join(root(1), 'dependencies'), { 'left-pad/index.js': 'x' })
  for (const release of [2, 3, 4]) {
    bring(release, { a: String(release) })
    lay(root(release), { 'prepared.json': JSON.stringify({ install: null, dependenciesOf: 1 }) })
    if (uid !== null) give(root(release), uid)
    await placing.place(request(release))
    await placing.settle(request(release))
  }
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['1', '3', '4'])
})

test('files that a release in preparation borrows survive settling and discarding', async t => {
  const { root, request, bring, volume } = await volumeWith(t, { a: '1' })
  const borrows = (release: number, lender: number) => {
    lay(root(release), { 'prepared.json': JSON.stringify({ install: null, dependenciesOf: lender }) })
    if (uid !== null) give(root(release), uid)
  }
  for (const release of [2, 3, 4]) {
    bring(release, { a: String(release) })
    lay(join(root(release), 'dependencies'), { 'left-pad/index.js': 'x' })
    if (uid !== null) give(root(release), uid)
    await placing.place(request(release))
  }
  borrows(5, 2)
  await placing.settle(request(4))
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['2', '3', '4', '5'])
  borrows(6, 4)
  await placing.discard(request(4))
  t.is(readFileSync(join(volume, 'files/a'), 'utf8'), '4', 'it was settled')
  t.deepEqual(readdirSync(root(4)), ['dependencies'])
  await placing.discard(request(6))
  bring(7, { a: '7' })
  await placing.place(request(7))
  await placing.settle(request(7))
  t.deepEqual(readdirSync(join(volume, 'releases')).sort(), ['3', '7'])
})

test.serial('links of the application never lead outside, even while files are placed', async t => {
  const { volume, files, request, bring } = await volumeWith(t, { 'a/b/file': 'one', 'c/file': 'one' })
  const outside = join(volume, 'outside')
  lay(outside, { 'b/file': 'canary', file: 'canary' })
  if (uid !== null) give(outside, uid)
  const canary = seen(outside)
  renameSync(join(files, 'a'), join(files, 'a-old'))
  symlinkSync(outside, join(files, 'a'))
  symlinkSync(outside, join(files, '.replaced'))
  const racer = fork(
    new URL('../../kit/children/link-racer.ts', import.meta.url),
    [join(files, 'c'), join(files, 'd'), outside],
    {
      execArgv: ['--import', 'tsx'],
      ...(uid === null ? {} : { uid, gid: uid }),
    },
  )
  t.teardown(() => racer.kill('SIGKILL'))
  await new Promise(resolve => racer.once('message', resolve))
  for (let release = 2; release < 8; release++) {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`d/${index}`, String(release)]))
    bring(release, { 'a/b/file': String(release), 'c/file': String(release), ...many })
    // An application that fights for its names may make a deploy fail, but never makes it reach outside.
    const placed = await placing.place(request(release)).catch(() => null)
    await (placed ? placing.settle(request(release)) : placing.discard(request(release))).catch(() => {})
  }
  racer.kill('SIGKILL')
  t.deepEqual(seen(outside), canary)
  await sleep(50)
  bring(9, { 'a/b/file': 'nine', 'c/file': 'nine', 'd/1': 'nine' })
  await placing.place(request(9))
  for (const path of ['a/b/file', 'c/file', 'd/1']) t.is(readFileSync(join(files, path), 'utf8'), 'nine')
  t.true(lstatSync(join(files, 'c')).isDirectory())
  t.deepEqual(seen(outside), canary)
})

test.serial('a reader finds either the old or the new file, whole, while releases are placed and undone', async t => {
  const text = (release: number) => `${release}\n`.repeat(200_000)
  const { files, request, bring } = await volumeWith(t, { 'page.html': text(1) })
  const reader = fork(new URL('../../kit/children/reader.ts', import.meta.url), [join(files, 'page.html')], {
    execArgv: ['--import', 'tsx'],
  })
  t.teardown(() => reader.kill('SIGKILL'))
  const answer = new Promise<{ reads: number; faults: string[] }>(resolve => reader.on('message', resolve as never))
  for (let release = 2; release < 6; release++) {
    bring(release, { 'page.html': text(release) })
    await placing.place(request(release))
    await (release % 2 ? placing.restore(request(release)) : placing.settle(request(release)))
  }
  reader.send('end')
  const { reads, faults } = await answer
  t.deepEqual(faults, [])
  t.true(reads > 20, `${reads} reads`)
})

test.serial('20,000 files are placed and undone', async t => {
  const many = (release: number): Contents =>
    Object.fromEntries(
      Array.from({ length: 20_000 }, (_, n) => [`f${n % 100}/file-${n}`, `${n % 4 ? n : n * release}`]),
    )
  const { files, request, bring } = await volumeWith(t, many(1))
  const before = seen(files)
  bring(2, many(2))
  const placedFiles = await placing.place(request(2))
  t.is(placedFiles.modified.length, 300)
  t.is(readFileSync(join(files, 'f4/file-4'), 'utf8'), '8')
  await placing.restore(request(2))
  t.deepEqual(seen(files), before)
})

test.serial('a placing whose child is killed at any moment is continued', async t => {
  const { volume, files, request, bring } = await volumeWith(t, {
    ...Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`f${n % 10}/${n}`, 'one'])),
  })
  await placing.settle(request(1))
  const before = seen(files)
  const next = Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`f${n % 13}/${n}`, 'two']))
  bring(2, next)
  await placing.place(request(2))
  const after = seen(files)
  let cut = 0
  for (let round = 0; round < 8; round++) {
    const act = round % 2 ? 'place' : 'restore'
    const child = fork(new URL('../../../activities/placement/child.ts', import.meta.url), {
      execArgv: ['--import', 'tsx'],
    })
    const ended = new Promise(resolve => child.once('exit', (_, signal) => resolve(signal)))
    child.send({ act, request: request(2) })
    // At a random moment after the first change.
    const journal = join(volume, 'releases/2')
    const marks = () => `${statSync(files).mtimeMs}${statSync(journal).mtimeMs}${statSync(join(files, 'f1')).mtimeMs}`
    for (const mark = marks(); mark === marks() && child.exitCode === null; ) await sleep(1)
    await sleep(Math.random() * 60)
    child.kill('SIGKILL')
    if ((await ended) === 'SIGKILL') cut++
    if (round % 3 === 2) {
      await placing.restore(request(2))
      t.deepEqual(seen(files), before)
    }
    if (round % 3 === 1) {
      await placing.place(request(2))
      t.deepEqual(seen(files), after)
    }
  }
  await placing.restore(request(2))
  t.deepEqual(seen(files), before)
  t.log(`${cut} of 8 were cut off`)
  t.true(cut > 0)
})
