import { access, mkdir, readdir, readFile, rm, rmdir, stat, statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { MiB } from '../../lib/bytes.ts'
import { unlessMissing } from '../../lib/folders/error-codes.ts'
import {
  check,
  command,
  growFile,
  growUnmounted,
  lengthen,
  makeImage,
  sizesOf,
  smallerThanItsFile,
} from './ext4-image.ts'
import { checkedId, createLayout, demandSpace, flushVolume, makeRoot, moveUnless, restrictAccess } from './folder.ts'
import {
  devices,
  inTable,
  isReadOnly,
  isRemoved,
  isUnwritable,
  loopDeviceOf,
  mountsIn,
  unmount,
  unmountIfIdle,
} from './mounts.ts'
import { type VolumeFault, VolumeLost, type Volumes } from './port.ts'

const suffix = '.ext4'

/**
 * Each volume is its own file system: a sparse file under `<root>/images`, loop-mounted at `<root>/mounts/<id>`. Needs root.
 * Every step may be repeated: a file counts once it has its final name, a mount once the kernel lists it. The kernel frees the
 * loop device with the last unmount (mount sets its autoclear flag), so none is left over.
 */
export function loopVolumes(root: string): Volumes {
  const path = (appId: string) => `${root}/mounts/${checkedId(appId)}`
  const image = (appId: string) => `${root}/images/${checkedId(appId)}${suffix}`
  const aside = (appId: string) => `${root}/strays/${checkedId(appId)}${suffix}`

  async function mountImage(appId: string): Promise<void> {
    // The file below a mount was removed, or replaced by another one, which is used then.
    for (const device of await devices(path(appId))) if (await isRemoved(device)) await unmount(path(appId))
    // After the host's disk was full or failed, the kernel allows no writes until the volume is mounted again.
    if (await isReadOnly(path(appId))) await mountAgain(appId, check)
    if ((await devices(path(appId))).length === 0) await mountUnmounted(appId)
  }

  /**
   * Unmounts a volume, repairs it if that is requested, and mounts it, grown to the size of its file; unless a program uses it. A container
   * that is about to start has all mounts of the host for a moment, so it is tried some times, with the volume mounted in between.
   */
  async function mountAgain(appId: string, repair?: (image: string) => Promise<void>): Promise<void> {
    for (let tries = 1; await unmountIfIdle(path(appId)); tries++) {
      if ((await mountUnmounted(appId, repair)) === 'alone' || tries === maxTries) return
      await sleep(tryEveryMs)
    }
  }

  /** 'in use': nothing is mounted here, but a container has a mount of its own; that file system is mounted here too, and is otherwise left alone. */
  async function mountUnmounted(appId: string, repair?: (image: string) => Promise<void>): Promise<'alone' | 'in use'> {
    const [file, folder] = [image(appId), path(appId)]
    await makeRoot(`${root}/mounts`)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const used = await loopDeviceOf(file)
    if (used) {
      const failure = await mountUsed(used, folder).then(
        () => null,
        error => error,
      )
      if (!failure) return 'in use'
      // Nothing has it any more where the container has ended meanwhile.
      if (await loopDeviceOf(file)) throw failure
    }
    await repair?.(file)
    const sizes = await sizesOf(file)
    // One whose superblock is damaged is repaired below, as far as it can be.
    if (sizes.system > sizes.file) await lengthen(file).catch(ignoreError('the mount reports it'))
    // A volume that cannot grow is of use nevertheless; growth that was given up demands a check.
    if (sizes.system < sizes.file) await growUnmounted(file).catch(() => check(file))
    const mount = () => command('mount', ['-t', 'ext4', '-o', `loop,${mountOptions}`, file, folder])
    await mount().catch(async error => {
      if (await loopDeviceOf(file)) throw error
      // Only a file system that a power cut has damaged gets here.
      await check(file)
      await mount()
    })
    return 'alone'
  }

  async function list(): Promise<string[]> {
    const names = (await readdir(`${root}/images`).catch(unlessMissing)) ?? []
    const ids = names.filter(name => name.endsWith(suffix)).map(name => name.slice(0, -suffix.length))
    return ids.sort()
  }

  return {
    quota: 'enforced',
    path,
    list,

    async ensure(appId, sizeMb, uid, created = 'now') {
      await mkdir(`${root}/images`, { recursive: true, mode: 0o700 })
      await moveUnless(aside(appId), image(appId))
      const present = await stat(image(appId)).catch(unlessMissing)
      // A mount of a removed file still has its files: they can be saved while it is mounted.
      if (!present && created === 'before') throw new VolumeLost(appId)
      // An existing volume starts even on a full disk.
      if (!present) {
        await demandSpace(root)
        await makeImage(image(appId), sizeMb)
      }
      await mountImage(appId)
      if (present && present.size < sizeMb * MiB) await growFile(image(appId), sizeMb * MiB)
      // For a larger plan. Where the kernel refuses it in use (it requires CAP_SYS_RESOURCE), what a program uses grows by a later call.
      if (present && (await smallerThanItsFile(image(appId))) && !(await growInUse(path(appId))))
        await mountAgain(appId)
      await createLayout(path(appId), uid)
    },

    async setAside(appId) {
      await unmount(path(appId))
      await mkdir(`${root}/strays`, { recursive: true, mode: 0o700 })
      await moveUnless(image(appId), aside(appId))
    },

    async bringBack(appId) {
      if (!(await stat(aside(appId)).catch(unlessMissing))) return
      await moveUnless(aside(appId), image(appId))
      await mountImage(appId)
    },

    async remove(appId) {
      await unmount(path(appId))
      await rm(aside(appId), { force: true })
      await rm(`${image(appId)}.new`, { force: true })
      await rm(image(appId), { force: true })
      await rmdir(path(appId)).catch(error => {
        if (error.code !== 'ENOENT') throw error
      })
    },

    async unmountAll() {
      for (const appId of await list()) await unmount(path(appId))
    },

    flush: appId => flushVolume(path(appId)),

    async remountAll() {
      // A volume that cannot be mounted must not stop the others.
      const failures: unknown[] = []
      for (const appId of await list()) {
        await mountImage(appId).catch(error => failures.push(error))
        await restrictAccess(path(appId)).catch(ignoreError('half created, or not mounted'))
      }
      if (failures.length > 0) throw new AggregateError(failures, `${failures.length} volumes could not be mounted.`)
    },

    async faults(appIds) {
      const present = new Set(await list())
      const mounted = mountsIn(await readFile('/proc/self/mounts', 'utf8'))
      const fault = (appId: string): [string, VolumeFault][] => {
        if (!present.has(appId)) return [[appId, 'lost']]
        const mounts = mounted.get(inTable(path(appId)))
        if (!mounts) return [[appId, 'not mounted']]
        return mounts.some(isUnwritable) ? [[appId, 'read-only']] : []
      }
      return new Map(appIds.flatMap(fault))
    },

    async waits(appId) {
      return (await isReadOnly(path(appId))) || (await smallerThanItsFile(image(appId)))
    },

    async device(appId) {
      return (await devices(path(appId)))[0] ?? null
    },

    async usedBytes(appId) {
      if ((await devices(path(appId))).length === 0) return 0
      const { blocks, bfree, bsize } = await statfs(path(appId))
      return (blocks - bfree) * bsize
    },

    async allocatedBytes() {
      let blocks = 0
      for (const appId of await list()) blocks += (await stat(image(appId)).catch(unlessMissing))?.blocks ?? 0
      return blocks * 512
    },

    demandRoom: bytes => demandSpace(root, bytes),
  }
}

/** `discard` returns the space of deleted files to the host; unused inode tables are never written. */
const mountOptions = 'nodev,nosuid,noatime,discard,noinit_itable'

/** Mounts a file system that containers use. One that became read-only is so in all of its mounts, and nothing else is accepted for another. */
async function mountUsed(device: string, folder: string): Promise<void> {
  const mount = (options: string) => command('mount', ['-t', 'ext4', '-o', options, device, folder])
  await mount(mountOptions).catch(() => mount(`ro,${mountOptions}`))
}

/** Half a second, several times as long as the engine needs to give a container its own mounts. */
const maxTries = 10
const tryEveryMs = 50

/** Whether a mounted file system has grown to the size of its file. */
async function growInUse(mountPoint: string): Promise<boolean> {
  const [device] = await devices(mountPoint)
  if (!device) throw new Error(`${mountPoint} is not mounted.`)
  return command('losetup', ['--set-capacity', device])
    .then(() => command('resize2fs', [device]))
    .then(
      () => true,
      () => false,
    )
}

/** Why this machine cannot have such volumes, or null. Creates a volume of 8 MB as a test. */
export async function loopRefusal(root: string): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'the host process does not run as root'
  const volumes = loopVolumes(root)
  const id = `probe-${process.pid}`
  try {
    await volumes.ensure(id, 8, 0)
    await access(`${volumes.path(id)}/lost+found`)
    return null
  } catch (error) {
    return error instanceof Error ? error.message.split('\n')[0]! : String(error)
  } finally {
    await volumes.remove(id).catch(ignoreError('the answer is about the trial, not its clean-up'))
  }
}
