import { chmod, chown, lstat, mkdir, readdir, rename, stat } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB, MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { unlessMissing } from '../../lib/folders/error-codes.ts'
import { freeBytesOf } from '../../lib/folders/free-bytes.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { removeVolume } from '../app-files/trash.ts'
import { VolumeLost, type Volumes } from './port.ts'

/** Free space in MB that a host always reserves. */
const reservedMb = 64

/** A volume counts as empty when adding up its files takes longer than this. */
const sumSeconds = 25

/** All volumes are added up no more often: that reads the disk. */
const sumAgainMs = 600_000

/** Volumes as plain folders under `root`: callers check sizes, nothing enforces them. */
export function folderVolumes(root: string): Volumes {
  const path = (appId: string) => `${root}/${checkedId(appId)}`
  let summed = { at: Number.NEGATIVE_INFINITY, bytes: 0 }
  // No id starts with a dot.
  const aside = (appId: string) => `${root}/.strays/${checkedId(appId)}`
  return {
    quota: 'checked',
    path,
    async ensure(appId, _sizeMb, uid, created = 'now') {
      await makeRoot(root)
      await moveUnless(aside(appId), path(appId))
      const present = await stat(path(appId)).catch(unlessMissing)
      if (!present && created === 'before') throw new VolumeLost(appId)
      if (!present) await demandSpace(root)
      await createLayout(path(appId), uid)
    },
    waits: async () => false,
    async setAside(appId) {
      await mkdir(`${root}/.strays`, { recursive: true, mode: 0o700 })
      await moveUnless(path(appId), aside(appId))
    },
    bringBack: appId => moveUnless(aside(appId), path(appId)),
    async remove(appId) {
      await removeVolume(path(appId))
      await removeVolume(aside(appId))
    },
    flush: appId => flushVolume(path(appId)),
    async remountAll() {
      for (const appId of await this.list()) await restrictAccess(path(appId)).catch(ignoreError('a half-made volume'))
    },

    async unmountAll() {},
    async faults(appIds) {
      const present = new Set(await this.list())
      return new Map(appIds.filter(appId => !present.has(appId)).map(appId => [appId, 'lost']))
    },
    device: async () => null,
    async usedBytes(appId) {
      return sumOf([path(appId)])
    },
    async allocatedBytes() {
      if (performance.now() - summed.at < sumAgainMs) return summed.bytes
      // Where it takes too long, what was found before is nearer to the truth than nothing.
      summed = { at: performance.now(), bytes: (await sumOf(['--exclude=.strays', root])) || summed.bytes }
      return summed.bytes
    },
    demandRoom: bytes => demandSpace(root, bytes),
    async list() {
      const names = (await readdir(root).catch(unlessMissing)) ?? []
      return names.filter(name => !name.startsWith('.')).sort()
    },
  }
}

/**
 * Bytes that a folder takes. `du` walks by descriptor and follows no links: whatever a program creates, it can only change the number. What
 * vanishes while it walks is an error of its own, and the sum is printed nevertheless.
 */
async function sumOf(args: string[]): Promise<number> {
  const { stdout }: { stdout: string } = await runProcess('du', ['-sk', ...args], {
    env: systemEnvironment,
    timeoutMs: sumSeconds * 1000,
  }).catch(error => error)
  return (Number.parseInt(stdout, 10) || 0) * KiB
}

/** Renames, unless the source is missing or the target exists: nothing is ever overwritten. A target that cannot be looked at may exist. */
export async function moveUnless(from: string, to: string): Promise<void> {
  if (await stat(to).catch(unlessMissing)) return
  await rename(from, to).catch(unlessMissing)
}

/** Creates the folders of every volume (port.ts). The application owns its files and nothing above them; only root changes owners. */
export async function createLayout(folder: string, uid: number): Promise<void> {
  await mkdir(`${folder}/files`, { recursive: true, mode: 0o755 })
  await mkdir(`${folder}/releases`, { recursive: true, mode: 0o755 })
  if (process.getuid?.() === 0) await chown(`${folder}/files`, uid, uid)
  await restrictAccess(folder)
}

/** Only the host and the user of its files may enter a volume: children on the host run as that user. */
export async function restrictAccess(folder: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid } = await lstat(`${folder}/files`)
  await chown(folder, 0, uid)
  await chmod(folder, 0o710)
}

/** Syncs the whole file system of a folder; Node has no call for it. */
export async function flushVolume(folder: string): Promise<void> {
  await runProcess('sync', ['-f', folder], { env: systemEnvironment })
}

/** The folder of all volumes: everyone may pass through it, only the host may list it. */
export async function makeRoot(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o711 })
  await chmod(folder, 0o711)
}

/** Rejects with NoSpaceLeft when the disk of `folder` is nearly full, or would be with `bytes` more. */
export async function demandSpace(folder: string, bytes = 0): Promise<void> {
  const freeMb = Math.floor((await freeBytesOf(folder)) / MiB)
  const neededMb = Math.ceil(bytes / MiB)
  if (freeMb >= neededMb + reservedMb) return
  const needed = neededMb > 0 ? `, and ${neededMb} MB are needed` : ''
  throw new NoSpaceLeft(`The host has ${freeMb} MB of disk space left${needed}.`)
}

/** Ids become folder names: rejects everything that could lead elsewhere. */
export function checkedId(appId: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/.test(appId)) throw new Error(`"${appId}" is not an id that a volume can have.`)
  return appId
}
