import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFile,
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import test from 'ava'
import { openVolumes } from '../../../activities/volumes/choice.ts'
import { makeImage } from '../../../activities/volumes/ext4-image.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import { VolumeLost } from '../../../activities/volumes/port.ts'
import { MiB } from '../../../lib/bytes.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { volumesContract } from '../../contracts/volumes.ts'

const run = promisify(execFile)
const root = await mkdtemp(`${tmpdir()}/berth volumes-`)
// Every user may pass through it, as for the data folder of a host.
await chmod(root, 0o711)
await mkdir(`${root}/loop`, { mode: 0o711 })
const loops = async (): Promise<string[]> => {
  const { stdout } = await run('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE'])
  return stdout.split('\n').filter(line => line.includes(root))
}

test.after.always(async () => {
  const volumes = loopVolumes(`${root}/loop`)
  for (const id of await volumes.list()) await volumes.remove(id)
  await rm(root, { recursive: true, force: true })
})

volumesContract(test.serial, 'folders', async () => folderVolumes(`${root}/folders`), {
  stored: id => `${root}/folders/${id}`,
  aside: id => `${root}/folders/.strays/${id}`,
})
volumesContract(test.serial, 'loop mounts', async () => loopVolumes(`${root}/loop`), {
  stored: id => `${root}/loop/images/${id}.ext4`,
  aside: id => `${root}/loop/strays/${id}.ext4`,
})

test.serial('a volume with an enforced size ends at it, without effect on the host', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  await volumes.ensure('full', 16, 10_001)
  await t.throwsAsync(writeFile(`${volumes.path('full')}/files/big`, Buffer.alloc(32 * 1024 * 1024)), {
    code: 'ENOSPC',
  })
  t.true((await stat(`${root}/loop/images/full.ext4`)).blocks * 512 <= 16 * 1024 * 1024)
  await volumes.remove('full')
})

test.serial(
  'a larger plan grows the volume at once unless a program uses it, and then with its next mount',
  async t => {
    const volumes = loopVolumes(`${root}/loop`)
    await volumes.ensure('grows', 16, 10_001)
    const big = (megabytes: number) => writeFile(`${volumes.path('grows')}/files/big`, Buffer.alloc(megabytes * MiB))
    await volumes.ensure('grows', 64, 10_001)
    await big(32)
    const inUse = await open(`${volumes.path('grows')}/files/big`)
    await volumes.ensure('grows', 128, 10_001)
    t.is((await inUse.read(Buffer.alloc(1), 0, 1, 0)).bytesRead, 1, 'what is in use stays mounted')
    await inUse.close()
    await volumes.ensure('grows', 128, 10_001)
    await big(96)
    await volumes.ensure('grows', 16, 10_001)
    t.is((await stat(`${volumes.path('grows')}/files/big`)).size, 96 * MiB)
    await volumes.remove('grows')
  },
)

test.serial('after a reboot everything is mounted again', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  await volumes.ensure('one', 16, 10_001)
  await volumes.ensure('two', 16, 10_001)
  await writeFile(`${volumes.path('two')}/files/note`, 'kept')
  await volumes.unmountAll()
  await t.throwsAsync(stat(`${volumes.path('two')}/files/note`))
  await loopVolumes(`${root}/loop`).remountAll()
  t.is((await stat(`${volumes.path('two')}/files/note`)).size, 4)
  t.true((await stat(`${volumes.path('one')}/files`)).isDirectory())
  await volumes.remove('one')
  await volumes.remove('two')
})

test.serial('a volume that cannot be repaired does not stop the others', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  await volumes.ensure('bad', 16, 10_001)
  await volumes.ensure('good', 16, 10_001)
  for (const id of ['bad', 'good']) await run('umount', [volumes.path(id)])
  t.deepEqual(await volumes.faults(['bad']), new Map([['bad', 'not mounted']]))
  await writeFile(`${root}/loop/images/bad.ext4`, Buffer.alloc(16 * 1024 * 1024))
  await t.throwsAsync(volumes.remountAll(), { message: '1 volumes could not be mounted.' })
  t.true((await stat(`${volumes.path('good')}/files`)).isDirectory())
  await volumes.remove('bad')
  await volumes.remove('good')
})

test.serial(
  'a file that was removed below its mount is not replaced while it stands, and counts once it is back',
  async t => {
    const volumes = loopVolumes(`${root}/loop`)
    const image = `${root}/loop/images/pulled.ext4`
    await volumes.ensure('pulled', 16, 10_001)
    await writeFile(`${volumes.path('pulled')}/files/note`, 'kept')
    await run('sync', ['-f', volumes.path('pulled')])
    await copyFile(image, `${root}/copy.ext4`)
    await rm(image)
    await t.throwsAsync(volumes.ensure('pulled', 16, 10_001, 'before'), { instanceOf: VolumeLost })
    t.is((await stat(`${volumes.path('pulled')}/files/note`)).size, 4, 'what is mounted can still be saved')
    await rename(`${root}/copy.ext4`, image)
    await volumes.ensure('pulled', 16, 10_001, 'before')
    t.is((await stat(`${volumes.path('pulled')}/files/note`)).size, 4)
    t.deepEqual(
      (await loops()).filter(line => line.includes('pulled')),
      [image],
      'and the file that has a name is mounted',
    )
    await volumes.remove('pulled')
  },
)

test.serial('a volume that became read-only is mounted again once no process uses it', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  await volumes.ensure('failed', 16, 10_001)
  const note = `${volumes.path('failed')}/files/note`
  await writeFile(note, 'kept')
  const file = await open(note, 'r')
  await run('mount', ['-o', 'remount,ro', volumes.path('failed')])
  t.deepEqual(await volumes.faults(['failed']), new Map([['failed', 'read-only']]))
  await volumes.ensure('failed', 16, 10_001, 'before').catch(() => {})
  t.is(String(await file.readFile()), 'kept', 'a program goes on reading')
  await file.close()
  await volumes.ensure('failed', 16, 10_001, 'before')
  await appendFile(note, ' and written')
  t.is(await readFile(note, 'utf8'), 'kept and written')
  await volumes.remove('failed')
})

test.serial('a new volume takes the place of no file', async t => {
  const image = `${root}/placed.ext4`
  await writeFile(image, 'a file system')
  await t.throwsAsync(makeImage(image, 16), { code: 'EEXIST' })
  t.is(await readFile(image, 'utf8'), 'a file system')
})

/** A program that has the volume as a container has it, in a mount namespace of its own: a `cat` that appends its input to a file. */
async function contained(volume: string, file: string) {
  // The other file systems of the machine are not its own.
  const others = `awk '$1 ~ "^/dev/loop" { print $2 }' /proc/self/mounts | while read -r path; do
      folder=$(printf '%b' "$path"); [ "$folder" = "$1" ] || umount "$folder"; done`
  const script = `exec 9>> "$2"; ${others}; echo ready; while read -r line; do echo "$line" >&9; sync "$2"; echo done; done`
  const program = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', volume, file])
  const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]()
  const says = async (word: string) => (await lines.next()).value === word
  const ended = once(program, 'exit')
  if (!(await says('ready'))) throw new Error('It did not begin.')
  return {
    async writes(line: string) {
      program.stdin.write(`${line}\n`)
      return says('done')
    },
    async ends() {
      program.stdin.end()
      await ended
    },
  }
}

/** What a check of a file system that is not mounted finds. */
const damage = (image: string): Promise<string> =>
  run('e2fsck', ['-f', '-n', image]).then(
    () => 'none',
    error => error.stdout,
  )

/** The size of the file system that is mounted here, in MB, without what ext4 itself uses of it. */
const mountedMb = async (folder: string): Promise<number> => {
  const { blocks, bsize } = await statfs(folder)
  return (blocks * bsize) / MiB
}

test.serial(
  'a volume that a container uses is not checked or resized below it, and grows at the next start',
  async t => {
    const volumes = loopVolumes(`${root}/loop`)
    const folder = volumes.path('lived-in')
    const image = `${root}/loop/images/lived-in.ext4`
    await volumes.ensure('lived-in', 16, 10_001)
    const note = `${folder}/files/note`
    const program = await contained(folder, note)
    t.true(await program.writes('before'))
    const { ino } = await stat(folder)
    await volumes.ensure('lived-in', 256, 10_001, 'before')
    t.true(await program.writes('after'))
    t.is(await readFile(note, 'utf8'), 'before\nafter\n', 'the host sees what the program sees')
    t.is((await stat(folder)).ino, ino)
    t.is(await volumes.waits('lived-in'), (await mountedMb(folder)) < 100, 'unless this kernel has let it grow at once')
    // As after an engine that holds what it runs, while the host process starts again.
    await run('umount', [folder])
    await loopVolumes(`${root}/loop`).remountAll()
    t.true(await program.writes('remounted'))
    t.is(await readFile(note, 'utf8'), 'before\nafter\nremounted\n')
    await program.ends()
    await volumes.ensure('lived-in', 256, 10_001, 'before')
    t.true((await mountedMb(folder)) > 200)
    t.false(await volumes.waits('lived-in'))
    t.is(await readFile(note, 'utf8'), 'before\nafter\nremounted\n')
    await run('umount', [folder])
    t.is(await damage(image), 'none')
    await volumes.remove('lived-in')
  },
)

test.serial('a volume that became read-only in a container is left alone until that has ended', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  const folder = volumes.path('ill')
  await volumes.ensure('ill', 16, 10_001)
  const note = `${folder}/files/note`
  const program = await contained(folder, note)
  t.teardown(program.ends)
  t.true(await program.writes('before'))
  // As the kernel does after a fault of the disk, for all mounts of the file system.
  await run('mount', ['-o', 'remount,abort', folder]).catch(() => {})
  t.deepEqual(await volumes.faults(['ill']), new Map([['ill', 'read-only']]))
  const image = `${root}/loop/images/ill.ext4`
  const bytes = await readFile(image)
  await t.throwsAsync(volumes.ensure('ill', 16, 10_001, 'before'))
  t.true(bytes.equals(await readFile(image)), 'no repair has written below it')
  t.true(await volumes.waits('ill'))
  t.deepEqual(await volumes.faults(['ill']), new Map([['ill', 'read-only']]), 'it is mounted as before')
  t.is(await readFile(note, 'utf8'), 'before\n')
  await program.ends()
  await volumes.ensure('ill', 16, 10_001, 'before')
  t.false(await volumes.waits('ill'))
  await appendFile(note, 'after\n')
  t.is(await readFile(note, 'utf8'), 'before\nafter\n')
  await run('umount', [folder])
  t.is(await damage(image), 'none')
  await volumes.remove('ill')
})

test.serial('leftovers of a killed attempt are adopted or created again', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  await volumes.ensure('torn', 16, 10_001)
  await volumes.remove('torn')
  await writeFile(`${root}/loop/images/torn.ext4.new`, 'half a file system')
  await volumes.ensure('torn', 16, 10_001)
  await run('umount', [volumes.path('torn')])
  await rm(`${volumes.path('torn')}`, { recursive: true })
  await volumes.ensure('torn', 16, 10_001)
  t.true((await stat(`${volumes.path('torn')}/files`)).isDirectory())
  await volumes.remove('torn')
  t.deepEqual(await readdir(`${root}/loop/images`), [])
})

test.serial('a file system that was damaged by a power cut is repaired', async t => {
  const volumes = loopVolumes(`${root}/loop`)
  await volumes.ensure('hurt', 16, 10_001)
  await run('umount', [volumes.path('hurt')])
  await run('dd', ['if=/dev/zero', `of=${root}/loop/images/hurt.ext4`, 'bs=1024', 'seek=1', 'count=1', 'conv=notrunc'])
  await volumes.ensure('hurt', 16, 10_001)
  t.true((await stat(`${volumes.path('hurt')}/files`)).isDirectory())
  await volumes.remove('hurt')
})

test.serial(
  'a volume whose file was left shorter than its file system by a power cut is mounted again, with its files',
  async t => {
    const volumes = loopVolumes(`${root}/loop`)
    const image = `${root}/loop/images/short.ext4`
    const note = `${volumes.path('short')}/files/note`
    const shorten = async () => {
      await run('umount', [volumes.path('short')])
      await truncate(image, 64 * MiB)
      // Demanded of one that was mounted in a later second than it was made.
      await run('e2fsck', ['-f', '-p', image])
      await run('resize2fs', [image])
      await truncate(image, 16 * MiB)
    }
    await volumes.ensure('short', 16, 10_001)
    await writeFile(note, 'kept')
    // The size that the volume is to have, as in an attempt at the same growth, or a smaller or larger one, or unknown after a reboot.
    const attempts = [64, 16, 128].map(megabytes => () => volumes.ensure('short', megabytes, 10_001, 'before'))
    for (const again of [...attempts, () => loopVolumes(`${root}/loop`).remountAll()]) {
      await shorten()
      await again()
      t.is(await readFile(note, 'utf8'), 'kept')
      await writeFile(`${volumes.path('short')}/files/big`, Buffer.alloc(40 * MiB))
      await rm(`${volumes.path('short')}/files/big`)
      await run('umount', [volumes.path('short')])
      t.is(await damage(image), 'none')
      await volumes.remove('short')
      await volumes.ensure('short', 16, 10_001)
      await writeFile(note, 'kept')
    }
    await volumes.remove('short')
  },
)

test.serial('a full disk of the host is reported as such and leaves nothing', async t => {
  const outer = loopVolumes(`${root}/loop`)
  await outer.ensure('small-disk', 40, 10_001)
  const disk = outer.path('small-disk')
  for (const volumes of [folderVolumes(`${disk}/folders`), loopVolumes(`${disk}/loop`)]) {
    await t.throwsAsync(volumes.ensure('app', 16, 10_001), { instanceOf: NoSpaceLeft })
    t.deepEqual(await volumes.list(), [])
  }
  await outer.remove('small-disk')
})

test.serial('the machine decides between enforced and checked sizes, and the setting can turn it off', async t => {
  const opened = await openVolumes({ root: `${root}/choice`, quota: 'auto' })
  t.is(opened.volumes.quota, process.getuid?.() === 0 ? 'enforced' : 'checked')
  t.is(opened.notice === null, opened.volumes.quota === 'enforced')
  t.deepEqual(await opened.volumes.list(), [])
  const off = await openVolumes({ root: `${root}/choice`, quota: 'off' })
  t.is(off.volumes.quota, 'checked')
  await writeFile(`${root}/file`, '')
  await truncate(`${root}/file`, 1)
  const impossible = await openVolumes({ root: `${root}/file`, quota: 'auto' })
  t.is(impossible.volumes.quota, 'checked')
  t.regex(impossible.notice ?? '', /ENOTDIR|EEXIST/)
})

test.serial('no loop device is left over', async t => {
  t.deepEqual(await loops(), [])
})
