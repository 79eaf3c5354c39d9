import { execFile } from 'node:child_process'
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
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'
import test from 'ava'
import { openVolumes } from '../../../activities/volumes/choice.ts'
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

volumesContract(test.serial, 'folders', async () => folderVolumes(`${root}/folders`))
volumesContract(test.serial, 'loop mounts', async () => loopVolumes(`${root}/loop`))

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
