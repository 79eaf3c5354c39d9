import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { ApplicationFailure } from '@temporalio/common'
import test, { type ExecutionContext } from 'ava'
import { withCode } from '../../../activities/failures.ts'
import { OverlayRefused } from '../../../activities/overlay/port.ts'
import { layReleaseOver } from '../../../activities/overlay/process.ts'
import { placement } from '../../../activities/placement/process.ts'
import { placingSlots } from '../../../activities/placement/slots.ts'
import { type OverlayLimits, overlayLimits } from '../../../policy/apps/overlay.ts'
import { type Contents, give, lay, ownFolder, seen } from '../../kit/folders.ts'

const uid = process.getuid?.() === 0 ? 10_778 : null
const owner = uid === null ? null : { uid, gid: uid }
const never = new AbortController().signal

/** A volume with an application's files and what its release 2 brings; `over` copies the one and lays the other over it. */
function volumeWith(t: ExecutionContext, own: Contents, brought: Contents) {
  const volume = ownFolder(t)
  const [files, release] = [join(volume, 'files'), join(volume, 'releases/2')]
  lay(files, own)
  lay(join(release, 'source'), brought)
  if (uid !== null) for (const folder of [files, release]) give(folder, uid)
  const over = (path = '', signal: AbortSignal = never, limits: Partial<OverlayLimits> = {}) =>
    layReleaseOver({ volume, release: 2, path, owner }, signal, { ...overlayLimits, ...limits })
  return { volume, files, build: join(release, 'build'), over }
}

test('the sources are laid over a copy of the files, and the files stay unchanged', async t => {
  const own = {
    'a.txt': 'a',
    'inner/b.txt': 'b',
    'run.sh': { text: 'x', mode: 0o755 },
    empty: null,
    link: { link: 'a.txt' },
  }
  const { files, build, over } = volumeWith(t, own, { 'a.txt': 'new', 'inner/c.txt': 'c', 'ünï-日本': 'u' })
  const before = seen(files)
  t.deepEqual(await over(), { entries: 10, bytes: 8 })
  const name = Buffer.from('ünï-日本').toString('latin1')
  t.deepEqual(seen(build), {
    ...before,
    'a.txt': 'file 644 new',
    'inner/c.txt': 'file 644 c',
    [name]: 'file 644 u',
  })
  t.deepEqual(seen(files), before)
  if (uid !== null) t.is(fs.lstatSync(join(build, 'inner/b.txt')).uid, uid)
})

test('modes, times, hard links and holes are preserved; special files are left out', async t => {
  const { files, build, over } = volumeWith(
    t,
    { 'cache/m/go.mod': 'x', one: 'linked', link: { link: '/etc/passwd' } },
    {},
  )
  fs.linkSync(join(files, 'one'), join(files, 'two'))
  fs.linkSync(join(files, 'one'), join(files, 'cache/three'))
  execFileSync('mkfifo', [join(files, 'pipe')])
  fs.writeFileSync(join(files, 'holes'), 'begin')
  fs.truncateSync(join(files, 'holes'), 64 * 1024 * 1024)
  if (uid !== null) give(files, uid)
  fs.chmodSync(join(files, 'cache/m'), 0o555)
  const at = (name: string) => [files, build].map(folder => fs.lstatSync(join(folder, name)))
  for (const name of ['cache/m/go.mod', 'cache/m', 'cache', '']) fs.utimesSync(join(files, name), 1e9, 1e9 + 0.5)
  fs.lutimesSync(join(files, 'link'), 1e9, 1e9 + 0.25)
  await over()
  for (const name of ['cache/m/go.mod', 'cache/m', 'cache', 'link', 'one', 'holes']) {
    const [from, to] = at(name)
    t.deepEqual([to!.mode, to!.size], [from!.mode, from!.size], name)
    t.true(Math.abs(to!.mtimeMs - from!.mtimeMs) < 1, name)
  }
  t.deepEqual(new Set(['one', 'two', 'cache/three'].map(name => at(name)[1]!.ino)).size, 1)
  t.is(at('one')[1]!.nlink, 3)
  t.true(at('holes')[1]!.blocks * 512 < 1024 * 1024)
  t.is(fs.readFileSync(join(build, 'holes')).subarray(0, 6).toString(), 'begin\0')
  t.false(fs.existsSync(join(build, 'pipe')))
})

test('obstructing files are replaced, and a link is never followed', async t => {
  const { volume, files, build, over } = volumeWith(
    t,
    { file: 'a file', 'folder/inner': 'x', 'locked/x': 'x', 'own.txt': 'own' },
    { 'package.json': '{}', 'file/now': 'a folder', folder: 'now a file', 'deep/er': 'x' },
  )
  const outside = join(volume, 'outside')
  lay(outside, { 'package.json': 'canary', er: 'canary' })
  fs.chmodSync(outside, 0o777)
  for (const name of ['x', 'deep', 'package.json'])
    fs.symlinkSync(name === 'package.json' ? join(outside, name) : outside, join(files, name))
  fs.linkSync(join(files, 'own.txt'), join(files, 'own-too.txt'))
  if (uid !== null) for (const folder of [files, outside]) give(folder, uid)
  fs.chmodSync(join(files, 'locked'), 0o500)
  await over()
  const { x: _, ...rest } = seen(build)
  t.deepEqual(rest, {
    deep: 'folder 755',
    'deep/er': 'file 644 x',
    file: 'folder 755',
    'file/now': 'file 644 a folder',
    folder: 'file 644 now a file',
    locked: 'folder 500',
    'locked/x': 'file 644 x',
    'own-too.txt': 'file 644 own',
    'own.txt': 'file 644 own',
    'package.json': 'file 644 {}',
  })
  for (const path of ['x/y', 'locked/deeper', 'own.txt']) {
    fs.rmSync(build, { recursive: true })
    await over(path)
    t.is(fs.readFileSync(join(build, path, 'package.json'), 'utf8'), '{}', path)
    t.is(seen(build).locked, 'folder 500')
  }
  t.is(seen(build)['own-too.txt'], 'file 644 own')
  t.deepEqual(seen(outside), { er: 'file 644 canary', 'package.json': 'file 644 canary' })
  fs.rmSync(build, { recursive: true })
  await t.throwsAsync(async () => over('../../..'), { message: /not a folder/ })
})

test('files that cannot be copied are refused permanently, with a code', async t => {
  const { files, build, over } = volumeWith(t, { 'a/b/c/d': 'x', 'closed/x': 'x' }, { 'package.json': '{}' })
  const refused = async (limits: Partial<OverlayLimits>, message: RegExp) => {
    fs.rmSync(build, { recursive: true, force: true })
    const error = await t.throwsAsync(over('', never, limits), { instanceOf: OverlayRefused, message })
    const { type, nonRetryable } = withCode(error) as ApplicationFailure
    t.deepEqual([type, nonRetryable], ['DEPLOY_FAILED', true])
  }
  await refused({ depth: 3 }, /over 3 folders deep/)
  await refused({ entries: 4 }, /over 4 files/)
  await refused({ bytes: 1 }, /over 1 bytes/)
  await refused({ memoryBytes: 1 }, /too many files/)
  await refused({ seconds: 0.001 }, /took over/)
  fs.chmodSync(join(files, 'closed'), 0)
  await refused({}, /closed cannot be read by its own user/)
  fs.chmodSync(join(files, 'closed'), 0o755)
})

test('a cancellation ends the copy', async t => {
  const { over } = volumeWith(t, { a: 'a' }, {})
  const reason = new Error('cancelled')
  const request = new AbortController()
  const copying = over('', request.signal)
  request.abort(reason)
  t.is(await t.throwsAsync(copying), reason)
  t.is(await t.throwsAsync(async () => over('', request.signal)), reason)
})

test('a folder of another user is not written to', async t => {
  const { volume, over } = volumeWith(t, { a: 'a' }, {})
  if (uid !== null) fs.chownSync(join(volume, 'releases/2'), uid + 1, uid + 1)
  await (uid === null ? t.notThrowsAsync(over()) : t.throwsAsync(over(), { message: /does not belong to user/ }))
})

test('copying and placing of one account wait for each other, and other accounts go ahead', async t => {
  const ended: string[] = []
  const placing = placement()
  const start = (name: string, account: string) => {
    const { volume } = volumeWith(t, { a: 'a' }, { b: 'b' })
    const request = { volume, release: 2, path: '', owner }
    const place = () => placing.inSlot(account, never, () => placing.place({ ...request, whole: false }))
    const work = name === 'placed' ? place() : layReleaseOver({ ...request, account }, never)
    return Promise.resolve(work).then(() => void ended.push(name))
  }
  const held = await placingSlots.enter('ana')
  t.teardown(() => held?.())
  const leave = await placingSlots.enter('ana')
  const waiting = [start('copied', 'ana'), start('placed', 'ana')]
  const others = ['first of bob', 'second', 'third']
  for (const name of others) await start(name, 'bob')
  t.deepEqual(ended, others)
  leave?.()
  await Promise.all(waiting)
  t.deepEqual(ended, [...others, 'copied', 'placed'])
})

test('a copy that waits for a slot can be cancelled', async t => {
  const { volume } = volumeWith(t, { a: 'a' }, {})
  for (let place = 0; place < 2; place++) {
    const leave = await placingSlots.enter('eve')
    t.teardown(() => leave?.())
  }
  const request = new AbortController()
  const copying = layReleaseOver({ volume, release: 2, path: '', owner, account: 'eve' }, request.signal)
  const reason = new Error('cancelled')
  request.abort(reason)
  t.is(await t.throwsAsync(copying), reason)
})
