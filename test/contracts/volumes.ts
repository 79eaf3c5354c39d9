import { execFile } from 'node:child_process'
import { chmod, mkdir, readlink, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import type { SerialFn } from 'ava'
import { VolumeLost, type Volumes } from '../../activities/volumes/port.ts'
import { MiB } from '../../lib/bytes.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'

const run = promisify(execFile)

/** Where a volume is on the disk of the host, and where it is while it is set aside. */
interface Where {
  stored(id: string): string
  aside(id: string): string
}

/** The contract of every kind of volume. `open` returns the same storage each time, as a restarted host process sees it. */
export function volumesContract(test: SerialFn, name: string, open: () => Promise<Volumes>, where: Where): void {
  const id = () =>
    [...crypto.getRandomValues(new Uint8Array(12))].map(byte => byte.toString(16).padStart(2, '0')).join('')

  test(`${name}: a volume has its folders, is listed, and keeps its content when it is adopted`, async t => {
    const app = id()
    const volumes = await open()
    await volumes.ensure(app, 16, 10_001)
    const files = await stat(`${volumes.path(app)}/files`)
    t.is(files.uid, process.getuid?.() === 0 ? 10_001 : files.uid)
    t.true((await stat(`${volumes.path(app)}/releases`)).isDirectory())
    await writeFile(`${volumes.path(app)}/files/note`, 'kept')
    const again = await open()
    await again.ensure(app, 16, 10_001)
    t.is((await stat(`${again.path(app)}/files/note`)).size, 4)
    t.true((await again.list()).includes(app))
    await again.remove(app)
    t.false((await again.list()).includes(app))
  })

  test(`${name}: a volume that was created before is adopted, and never replaced by an empty one`, async t => {
    const app = id()
    const volumes = await open()
    await t.throwsAsync(volumes.ensure(app, 16, 10_001, 'before'), { instanceOf: VolumeLost })
    t.false((await volumes.list()).includes(app))
    await volumes.ensure(app, 16, 10_001)
    await volumes.ensure(app, 16, 10_001, 'before')
    await volumes.setAside(app)
    await volumes.ensure(app, 16, 10_001, 'before')
    await volumes.remove(app)
  })

  test(`${name}: a volume that cannot be looked at is neither lost nor replaced`, async t => {
    const app = id()
    const volumes = await open()
    await volumes.ensure(app, 16, 10_001)
    await volumes.setAside(app)
    const [stored, aside] = [where.stored(app), where.aside(app)]
    // As after an error of the disk: the system says neither that it is there nor that it is missing.
    const unreadable = async (path: string) => {
      await symlink(path, path)
      await t.throwsAsync(volumes.ensure(app, 16, 10_001, 'before'), { code: 'ELOOP' })
      await t.throwsAsync(volumes.ensure(app, 16, 10_001), { code: 'ELOOP' })
      t.is(await readlink(path), path)
      await rm(path)
    }
    await unreadable(stored)
    await rename(aside, `${aside}.away`)
    await unreadable(stored)
    await rename(`${aside}.away`, aside)
    await volumes.bringBack(app)
    t.is((await volumes.faults([app])).size, 0)

    const all = dirname(stored)
    await rename(all, `${all}.away`)
    await symlink(all, all)
    await t.throwsAsync(volumes.list(), { code: 'ELOOP' })
    await t.throwsAsync(volumes.faults([app]), { code: 'ELOOP' })
    await rm(all)
    t.deepEqual(await volumes.list(), [], 'where there is no folder yet, there is no volume')
    await rename(`${all}.away`, all)
    await volumes.remove(app)
  })

  test(`${name}: only a lost volume is reported as lost`, async t => {
    const [app, lost] = [id(), id()]
    const volumes = await open()
    await volumes.ensure(app, 16, 10_001)
    t.deepEqual(await volumes.faults([app, lost]), new Map([[lost, 'lost']]))
    await volumes.setAside(app)
    t.deepEqual([...(await volumes.faults([app])).keys()], [app])
    await volumes.bringBack(app)
    t.is((await volumes.faults([app])).size, 0)
    await volumes.remove(app)
  })

  test(`${name}: a process on the host with the user of one application cannot read another's files`, async t => {
    const [app, other] = [id(), id()]
    const volumes = await open()
    await volumes.ensure(app, 16, 10_001)
    await volumes.ensure(other, 16, 10_002)
    const own = [`${volumes.path(app)}/files/note`, `${volumes.path(app)}/releases/1/source/note`]
    for (const path of own) {
      await mkdir(dirname(path), { recursive: true, mode: 0o755 })
      await writeFile(path, 'its own', { mode: 0o644 })
    }
    const reads = async (uid: number) => {
      const who = process.getuid?.() === 0 ? { uid, gid: uid } : {}
      const tries = [...own.map(path => ['cat', path]), ['ls', volumes.path(app)], ['ls', dirname(volumes.path(app))]]
      return Promise.all(
        tries.map(([program, path]) =>
          run(program!, [path!], who).then(
            () => 'read',
            () => 'refused',
          ),
        ),
      )
    }
    const alone = process.getuid?.() === 0
    const expected = (uid: number) =>
      alone
        ? uid === 10_001
          ? ['read', 'read', 'refused', 'refused']
          : Array(4).fill('refused')
        : Array(4).fill('read')
    for (const uid of [10_001, 10_002]) t.deepEqual(await reads(uid), expected(uid), String(uid))
    // As in older volumes, until the next start of the host.
    await chmod(volumes.path(app), 0o755)
    t.deepEqual((await reads(10_002))[0], 'read')
    await (await open()).remountAll()
    for (const uid of [10_001, 10_002]) t.deepEqual(await reads(uid), expected(uid), String(uid))
    for (const made of [app, other]) await volumes.remove(made)
  })

  test(`${name}: removing twice, or a missing volume, is success`, async t => {
    const app = id()
    const volumes = await open()
    await volumes.remove(app)
    await volumes.ensure(app, 16, 10_001)
    await volumes.remove(app)
    await volumes.remove(app)
    await t.throwsAsync(stat(volumes.path(app)), { code: 'ENOENT' })
  })

  test(`${name}: a volume that is set aside is not listed, comes back with its content, and is deleted by a removal`, async t => {
    const app = id()
    const volumes = await open()
    await volumes.bringBack(app)
    await volumes.setAside(app)
    await volumes.ensure(app, 16, 10_001)
    const note = `${volumes.path(app)}/files/note`
    await writeFile(note, 'kept')
    for (const back of [() => volumes.bringBack(app), async () => (await open()).ensure(app, 16, 10_001)]) {
      await volumes.setAside(app)
      await volumes.setAside(app)
      t.false((await volumes.list()).includes(app))
      await t.throwsAsync(stat(note), { code: 'ENOENT' })
      await (await open()).remountAll()
      await t.throwsAsync(stat(note), { code: 'ENOENT' })
      await back()
      t.true((await volumes.list()).includes(app))
      t.is((await stat(note)).size, 4)
    }
    await volumes.setAside(app)
    await volumes.remove(app)
    await volumes.bringBack(app)
    t.false((await volumes.list()).includes(app))
  })

  test(`${name}: used bytes follow writes`, async t => {
    const app = id()
    const volumes = await open()
    t.is(await volumes.usedBytes(app), 0)
    await volumes.ensure(app, 16, 10_001)
    const before = await volumes.usedBytes(app)
    await writeFile(`${volumes.path(app)}/files/data`, Buffer.alloc(4 * 1024 * 1024, 7), { flush: true } as object)
    const grown = (await volumes.usedBytes(app)) - before
    t.true(grown >= 4 * 1024 * 1024 && grown < 5 * 1024 * 1024, String(grown))
    await volumes.remove(app)
  })

  test(`${name}: volumes report the bytes that were written as allocated, not their sizes, nor what is set aside`, async t => {
    const app = id()
    const volumes = await open()
    const allocated = async () => (await open()).allocatedBytes()
    const none = await allocated()
    await volumes.ensure(app, 64, 10_001)
    const before = await allocated()
    await writeFile(`${volumes.path(app)}/files/data`, Buffer.alloc(8 * MiB, 7))
    await volumes.flush(app)
    const grown = (await allocated()) - before
    t.true(grown >= 8 * MiB && grown < 12 * MiB, String(grown))
    t.true(before - none < 8 * MiB, String(before - none))
    await volumes.setAside(app)
    t.is(await allocated(), none)
    await volumes.remove(app)
  })

  test(`${name}: a volume without room on the disk of the host is refused, with how much room there is`, async t => {
    const app = id()
    const volumes = await open()
    await volumes.ensure(app, 16, 10_001)
    await volumes.remove(app)
    await volumes.demandRoom(1)
    const error = await t.throwsAsync(volumes.demandRoom(2 ** 50), { instanceOf: NoSpaceLeft })
    const [, free] = /has (\d+) MB of disk space left, and 1073741824 MB are needed/.exec(error!.message) ?? []
    await volumes.demandRoom((Number(free) / 2) * MiB)
    await t.throwsAsync(volumes.demandRoom(Number(free) * MiB), { instanceOf: NoSpaceLeft }, 'some are kept free')
  })

  test(`${name}: an id never leads elsewhere`, async t => {
    const volumes = await open()
    for (const bad of ['', '..', 'a/b', '../x', '.hidden', 'a\0b', 'x'.repeat(65)])
      t.throws(() => volumes.path(bad), undefined, bad)
    await t.throwsAsync(volumes.remove('../..'))
  })
}
