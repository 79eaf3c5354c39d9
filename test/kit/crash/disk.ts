import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import test from 'ava'
import { ignoreError } from '../../../lib/async/ignore-error.ts'

const run = promisify(execFile)

/** A file system of a test's own, of which a power cut keeps no more than what was synced. Needs root. */
export interface Disk {
  /** Where it is mounted; the same after `restart`. */
  folder: string
  /** Writes everything out, also of the file systems in its files, so that what comes next is alone. */
  settle(): Promise<void>
  /** Gives the file systems in its files that are mounted below it the options of this one, but for those that only a first mount can set. */
  loosen(): Promise<void>
  /**
   * What a power cut at this moment leaves: a copy of the backing file, taken as it is, in which data that the file system has not
   * written yet is missing. Resolves to the path of the copy. Nothing may write meanwhile for longer than some seconds.
   */
  cut(): Promise<string>
  /** The copy mounted at a place of its own until the next look, for reading. */
  look(copy: string): Promise<string>
  /** Replaces the disk by the copy. No process may have files open there. */
  restart(copy: string): Promise<void>
  /** Replaces a folder below it by what it was in the copy, which is removed. */
  restore(copy: string, folder: string): Promise<void>
}

/**
 * A file system keeps more through a power cut than it has to: it writes by itself after some seconds, and a sync of one file takes
 * others along. These options leave as little of that as ext4 lets one choose.
 */
const late = 'noauto_da_alloc,commit=600'
const options = `loop,noatime,noinit_itable,data=writeback,${late}`

/** Call it once at the top level of a test file; the disk is removed after the file. */
export function testDisk(megabytes: number): Promise<Disk> {
  const opened = openDisk(megabytes)
  test.after.always('take the disk away', async () => {
    await (await opened).remove()
  })
  return opened
}

/** A disk that the caller removes. */
export async function openDisk(megabytes: number): Promise<Disk & { remove(): Promise<void> }> {
  const base = await mkdtemp(join(tmpdir(), 'berth-disk-'))
  const [folder, place] = [join(base, 'disk'), join(base, 'after')]
  let image = join(base, 'disk.0')
  let copies = 0
  await chmod(base, 0o711)
  for (const path of [folder, place]) await mkdir(path)
  await writeFile(image, '')
  await truncate(image, megabytes * 1024 * 1024)
  await run('mkfs.ext4', ['-q', '-F', '-m', '0', '-E', 'lazy_itable_init=1,lazy_journal_init=1,nodiscard', image])
  const mount = () => run('mount', ['-t', 'ext4', '-o', options, image, folder])
  await mount()
  await chmod(folder, 0o711)
  await run('sync', ['-f', folder])
  const device = async () => (await run('findmnt', ['-n', '-o', 'SOURCE', folder])).stdout.trim().replace('/dev/', '')

  async function look(copy: string): Promise<string> {
    await unmounted(place)
    await run('mount', ['-t', 'ext4', '-o', 'loop,noatime', copy, place])
    return place
  }

  return {
    folder,
    async settle() {
      for (const { path } of await mountsBelow(folder)) await run('sync', ['-f', path]).catch(gone)
      await run('sync', ['-f', folder])
    },
    async loosen() {
      const strict = (await mountsBelow(folder)).filter(mount => !mount.options.includes('commit=600'))
      for (const { path } of strict) await run('mount', ['-o', `remount,${late}`, path]).catch(gone)
    },
    async cut() {
      const copy = join(base, `disk.${++copies}`)
      const name = await device()
      for (let tries = 0; tries < 100; tries++) {
        const before = await written(name)
        await run('cp', ['--sparse=always', image, copy])
        const after = await written(name)
        // Written to in between, it would be of no moment at all.
        if (before.underWay === 0 && before.count === after.count && after.underWay === 0) return copy
        await sleep(50)
      }
      throw new Error(`${folder} is written to without a pause.`)
    },
    look,
    async restart(copy) {
      await unmounted(folder)
      await rm(image)
      image = copy
      await mount()
    },
    async restore(copy, below) {
      const former = join(await look(copy), relative(folder, below))
      await rm(below, { recursive: true })
      await run('cp', ['-a', '--sparse=always', former, below])
      await unmounted(place)
      await rm(copy)
    },
    async remove() {
      for (const path of [place, folder]) await unmounted(path)
      await rm(base, { recursive: true, force: true })
    },
  }
}

/** The kernel's counters of a block device: finished writes, and those in progress. */
async function written(device: string): Promise<{ count: string; underWay: number }> {
  const numbers = (await readFile(`/sys/block/${device}/stat`, 'utf8')).trim().split(/\s+/)
  return { count: `${numbers[4]} ${numbers[6]}`, underWay: Number(numbers[8]) }
}

/** Unmounts what is mounted below first; a process that still has its working folder there only delays that. */
async function unmounted(folder: string): Promise<void> {
  const own = (await mounts()).filter(({ path }) => path === folder)
  for (const { path } of [...own, ...(await mountsBelow(folder))].reverse())
    await run('umount', [path]).catch(() => run('umount', ['--lazy', path]))
}

const gone = ignoreError('it has just been unmounted')

async function mountsBelow(folder: string): Promise<Mount[]> {
  return (await mounts()).filter(({ path }) => path.startsWith(`${folder}/`))
}

interface Mount {
  path: string
  options: string
}

/** In their order. */
async function mounts(): Promise<Mount[]> {
  const lines = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map(line => line.split(' '))
  return lines.map(([, path = '', , options = '']) => ({ path, options }))
}
