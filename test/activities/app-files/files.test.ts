import { execFileSync, fork } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import test, { type ExecutionContext } from 'ava'
import { moveFile, removeFile, writeFile } from '../../../activities/app-files/changes.ts'
import { type FilesOf, listFiles, readFile } from '../../../activities/app-files/files.ts'
import { emptyTrash } from '../../../activities/app-files/trash.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import { maxFileBytes } from '../../../policy/apps/file-content.ts'
import { newAppId } from '../../../policy/ids.ts'
import { type Contents, give, lay, seen } from '../../kit/folders.ts'

const root = mkdtempSync(join(tmpdir(), 'berth-files-'))
const uid = process.getuid?.() === 0 ? 10_777 : process.getuid!()
const volumes = loopVolumes(root)

test.after.always('remove them', async () => {
  for (const id of await volumes.list()) await volumes.remove(id)
  rmSync(root, { recursive: true, force: true })
})

/** A new application's volume with these contents. */
async function volumeWith(contents: Contents = {}, sizeMb = 32) {
  const appId = newAppId()
  await volumes.ensure(appId, sizeMb, uid)
  const volume = volumes.path(appId)
  const files = join(volume, 'files')
  lay(files, contents)
  give(files, uid)
  const of: FilesOf = { volume, hiding: null }
  const text = async (path: string) => Buffer.concat(await (await readFile(of, path)).toArray()).toString()
  return { volume, files, of, text }
}

const listed = async (pieces: Promise<Readable>) => JSON.parse((await (await pieces).toArray()).join(''))
const descriptors = () => readdirSync('/proc/self/fd').length
const owner = (path: string) => lstatSync(path).uid

test('a list of a folder has sizes and times, and counts links as files', async t => {
  const { files, of } = await volumeWith({
    'b.txt': 'four',
    a: null,
    'a/x': '1',
    link: { link: '/etc/passwd' },
    ünï: '',
  })
  utimesSync(join(files, 'b.txt'), 1000, 1_700_000_000.5)
  const entries = await listed(listFiles(of, ''))
  const brief = entries.map((entry: Record<string, unknown>) => [entry.name, entry.type, entry.size])
  t.deepEqual(
    brief.filter(([name]: string[]) => name !== 'lost+found'),
    [
      ['a', 'directory', 0],
      ['b.txt', 'file', 4],
      ['link', 'file', 11],
      ['ünï', 'file', 0],
    ],
  )
  t.is(entries.find((entry: { name: string }) => entry.name === 'b.txt').lastModified, 1_700_000_000_500)
  t.deepEqual((await listed(listFiles(of, 'a'))).length, 1)
  await removeFile(of, 'a/x')
  t.deepEqual(await listed(listFiles(of, 'a')), [])
})

test('only plain files can be read, and no read blocks', async t => {
  const { files, of, text } = await volumeWith({
    file: 'text',
    folder: null,
    link: { link: 'file' },
    up: { link: '..' },
  })
  execFileSync('mkfifo', [join(files, 'pipe')])
  const server = createServer().listen(join(files, 'socket'))
  t.teardown(() => server.close())
  for (const path of ['folder', 'link', 'pipe', 'socket', 'nothing', 'file/below', 'up/files/file', 'no/way'])
    await t.throwsAsync(text(path), { code: 'FILE_NOT_FOUND' }, path)
  for (const path of ['file', 'link', 'up', 'pipe', 'nothing', 'up/files'])
    await t.throwsAsync(listFiles(of, path), { code: 'FILE_NOT_FOUND' }, path)
  t.is(await text('file'), 'text')
})

test('files of up to 10 MB can be read, also empty ones', async t => {
  const { files, text } = await volumeWith({ empty: '' })
  writeFileSync(join(files, 'most'), Buffer.alloc(maxFileBytes, 'x'))
  writeFileSync(join(files, 'more'), Buffer.alloc(maxFileBytes + 1, 'x'))
  t.is(await text('empty'), '')
  t.is((await text('most')).length, maxFileBytes)
  await t.throwsAsync(text('more'), { code: 'FILE_TOO_LARGE', message: /10 MB/ })
})

test('a written file belongs to the application, and replacing it keeps the mode', async t => {
  const { files, of, volume } = await volumeWith({ 'run.sh': { text: 'old', mode: 0o750 }, link: { link: 'run.sh' } })
  await writeFile(of, 'new/deep/ünï.txt', Buffer.from('new'))
  await writeFile(of, 'run.sh', Buffer.from('changed'))
  await writeFile(of, 'link', Buffer.from('a file now'))
  await writeFile(of, 'empty', Buffer.alloc(0))
  const found = seen(files)
  delete found['lost+found']
  t.deepEqual(found, {
    empty: 'file 644 ',
    link: 'file 644 a file now',
    new: 'folder 755',
    'new/deep': 'folder 755',
    [Buffer.from('new/deep/ünï.txt').toString('latin1')]: 'file 644 new',
    'run.sh': 'file 750 changed',
  })
  for (const name of ['new', 'new/deep', 'new/deep/ünï.txt', 'run.sh', 'link']) t.is(owner(join(files, name)), uid)
  t.false(existsSync(join(volume, 'draft')))
  await t.throwsAsync(writeFile(of, 'new', Buffer.from('x')), { code: 'INVALID_PATH', message: /directory/ })
  await t.throwsAsync(writeFile(of, 'run.sh/x', Buffer.from('x')), { code: 'INVALID_PATH' })
})

test('a move takes links and folders unchanged, and never overwrites', async t => {
  const { files, of } = await volumeWith({ 'a/b': 'ab', link: { link: '/etc' }, other: 'other', node_modules: null })
  await moveFile(of, 'a', 'deeper/still')
  await moveFile(of, 'link', 'deeper/link')
  t.is(readFileSync(join(files, 'deeper/still/b'), 'utf8'), 'ab')
  t.true(lstatSync(join(files, 'deeper/link')).isSymbolicLink())
  await t.throwsAsync(moveFile(of, 'other', 'deeper/link'), { code: 'RENAME_FAILED', message: /already/ })
  await t.throwsAsync(moveFile(of, 'deeper', 'deeper/itself'), { code: 'RENAME_FAILED' })
  await t.throwsAsync(moveFile(of, 'other', 'other/below'), { code: 'RENAME_FAILED' })
  await t.throwsAsync(moveFile(of, 'a', 'b'), { code: 'FILE_NOT_FOUND' })
  await t.throwsAsync(moveFile(of, 'deeper/link/passwd', 'taken'), { code: 'FILE_NOT_FOUND' })
  await t.throwsAsync(moveFile(of, 'other', 'deeper/link/x'), { code: 'RENAME_FAILED' })
  await t.throwsAsync(moveFile(of, 'node_modules', 'x'), { code: 'RENAME_FAILED', message: /mounted/ })
})

test.serial('a deletion removes folders of any depth and size, does not follow links, and frees the space', async t => {
  const { files, of, volume } = await volumeWith({ 'a/b/c': 'c', link: { link: '/etc' }, vendor: null })
  mkdirSync(join(files, 'locked', 'inner'), { recursive: true, mode: 0o500 })
  // Deeper than any path that a system call accepts.
  const dig = `for (let i = 0; i < 600; i++) { fs.mkdirSync('deeper-and-deeper'); process.chdir('deeper-and-deeper') }`
  execFileSync(process.execPath, ['-e', dig], { cwd: join(files, 'a') })
  const before = descriptors()
  for (const path of ['a', 'link', 'locked']) await removeFile(of, path)
  t.deepEqual(
    Object.keys(seen(files)).filter(name => name !== 'lost+found'),
    ['vendor'],
  )
  await Promise.all([emptyTrash(volume), emptyTrash(volume)])
  t.deepEqual(readdirSync(join(volume, 'trash')), [])
  t.true(existsSync('/etc/passwd'))
  t.is(descriptors(), before)
  await t.throwsAsync(removeFile(of, 'a'), { code: 'FILE_NOT_FOUND' })
  await t.throwsAsync(removeFile(of, 'a/b'), { code: 'FILE_NOT_FOUND' })
  await t.throwsAsync(removeFile(of, 'vendor'), { code: 'DELETE_FAILED', message: /mounted/ })
})

test('a caller who may not see secrets neither sees them nor moves them with a folder', async t => {
  const contents = {
    '.env': '',
    '.env.local': '',
    'berth.app': '',
    'mine.app': '',
    'in/berth.app': '',
    'in/x/.env': '',
  }
  const { of } = await volumeWith({ ...contents, 'env.txt': '', 'free/x': '' })
  const theirs = { ...of, hiding: ['mine.app'] }
  const names = async (path: string) =>
    (await listed(listFiles(theirs, path))).map((entry: { name: string }) => entry.name)
  t.deepEqual(
    (await names('')).filter((name: string) => name !== 'lost+found'),
    ['env.txt', 'free', 'in'],
  )
  t.deepEqual(await names('in'), ['berth.app', 'x'])
  t.deepEqual(await names('in/x'), [])
  await t.throwsAsync(removeFile(theirs, 'in'), { code: 'BLOCKED_PATH' })
  await t.throwsAsync(moveFile(theirs, 'in', 'out'), { code: 'BLOCKED_PATH' })
  await moveFile(theirs, 'free', 'out')
  await removeFile(theirs, 'out')
  await removeFile(of, 'in')
})

test('a write to a full volume reports it, and the old file stays', async t => {
  const { of, text, volume } = await volumeWith({ kept: 'kept' }, 16)
  const write = async () => {
    for (let index = 0; index < 4; index++) await writeFile(of, `big-${index}`, Buffer.alloc(maxFileBytes, 'x'))
  }
  await t.throwsAsync(write(), { code: 'SAVE_FAILED', message: /disk space/ })
  await t.throwsAsync(writeFile(of, 'kept', Buffer.alloc(maxFileBytes)), { code: 'SAVE_FAILED' })
  t.is(await text('kept'), 'kept')
  t.false(existsSync(join(volume, 'draft')), 'what could not be written takes no space')
})

test('an application without files has an empty list, and refuses new files', async t => {
  const of = { volume: join(root, 'never'), hiding: null }
  await t.throwsAsync(listFiles(of, ''), { code: 'FILE_NOT_FOUND' })
  await t.throwsAsync(writeFile(of, 'a', Buffer.alloc(1)), { code: 'SAVE_FAILED' })
})

test.serial('a list that is not read leaves nothing open', async t => {
  const { of } = await volumeWith({ a: '' })
  const before = descriptors()
  const pieces = await listFiles(of, '')
  pieces.destroy()
  const stream = await readFile(of, 'a')
  stream.destroy()
  await new Promise(resolve => setTimeout(resolve, 50))
  t.is(descriptors(), before)
})

function race(t: ExecutionContext, ...args: string[]) {
  const racer = fork(new URL('../../kit/children/link-racer.ts', import.meta.url), args, {
    execArgv: ['--import', 'tsx'],
    ...(uid === process.getuid?.() ? {} : { uid, gid: uid }),
  })
  t.teardown(() => racer.kill('SIGKILL'))
  return new Promise<void>(resolve => racer.once('message', () => resolve()))
}

test('folders that become links during a walk never lead outside', async t => {
  const { files, of, volume, text } = await volumeWith({ 'c/file': 'inside', 'd/file': 'inside' })
  const outside = join(volume, 'outside')
  lay(outside, { file: 'canary', 'deep/file': 'canary' })
  give(outside, uid)
  const canary = seen(outside)
  await race(t, join(files, 'c'), join(files, 'd'), outside)
  const read: string[] = []
  const settled = async (work: Promise<unknown>) => void (await work.catch(() => {}))
  for (let round = 0; round < 150; round++) {
    await settled(writeFile(of, `c/file`, Buffer.from('inside')))
    await settled(writeFile(of, `d/deep/new-${round}`, Buffer.from('new')))
    await settled(text('c/file').then(content => read.push(content)))
    await settled(
      listed(listFiles(of, 'd/deep')).then(entries => read.push(...entries.map((e: { name: string }) => e.name))),
    )
    await settled(moveFile(of, 'c/file', `d/moved-${round}`))
    await settled(moveFile(of, 'c/deep', `d/taken-${round}`))
    await settled(removeFile(of, 'd/file'))
    await settled(removeFile(of, 'c'))
  }
  await emptyTrash(volume)
  t.deepEqual(seen(outside), canary)
  t.true(read.length > 0, 'some of it went through')
  t.false(read.includes('canary') || read.includes('file'))
})

test('a reader finds either the old or the new content, never a part', async t => {
  const { files, of } = await volumeWith({ 'page.html': '1\n'.repeat(200_000) })
  const reader = fork(new URL('../../kit/children/reader.ts', import.meta.url), [join(files, 'page.html')], {
    execArgv: ['--import', 'tsx'],
  })
  t.teardown(() => reader.kill('SIGKILL'))
  const answer = new Promise<{ reads: number; faults: string[] }>(resolve => reader.on('message', resolve as never))
  for (let round = 2; round < 9; round++) await writeFile(of, 'page.html', Buffer.from(`${round}\n`.repeat(200_000)))
  reader.send('end')
  const { reads, faults } = await answer
  t.deepEqual(faults, [])
  t.true(reads > 0)
  t.is(statSync(join(files, 'page.html')).size, 400_000)
})
