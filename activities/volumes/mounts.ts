import { readFile } from 'node:fs/promises'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { command } from './ext4-image.ts'

/** Unmounts until nothing is mounted there; lazily when a process still uses it. */
export async function unmount(mountPoint: string): Promise<void> {
  while ((await devices(mountPoint)).length > 0) {
    await command('umount', [mountPoint]).catch(() => command('umount', ['--lazy', mountPoint]))
  }
}

/** Devices mounted at this path, as the kernel lists them. */
export async function devices(mountPoint: string): Promise<string[]> {
  return (await mountsAt(mountPoint)).map(({ device }) => device)
}

/** Whether the mount here cannot be written to; false where nothing is mounted. */
export async function isReadOnly(mountPoint: string): Promise<boolean> {
  return (await mountsAt(mountPoint)).some(isUnwritable)
}

/** Unmounts unless a process of this mount namespace uses it; false, without a change, if one does. */
export async function unmountIfIdle(mountPoint: string): Promise<boolean> {
  return command('umount', [mountPoint]).then(
    () => true,
    () => false,
  )
}

async function mountsAt(mountPoint: string): Promise<Mount[]> {
  return mountsIn(await readFile('/proc/self/mounts', 'utf8')).get(inTable(mountPoint)) ?? []
}

/**
 * The loop device that has this file, as `/dev/<name>`, or null. A file that is mounted nowhere here may be in use all the same: a container
 * has a mount of its own, which our unmount leaves alone.
 */
export async function loopDeviceOf(image: string): Promise<string | null> {
  const list = ['--associated', image, '--noheadings', '--output', 'NAME']
  const { stdout } = await runProcess('losetup', list, { env: systemEnvironment })
  return stdout.split('\n')[0] || null
}

/** Whether the file behind a loop device was removed. */
export async function isRemoved(device: string): Promise<boolean> {
  const file = await readFile(`/sys/block/${device.replace('/dev/', '')}/loop/backing_file`, 'utf8').catch(() => '')
  return file.trimEnd().endsWith(' (deleted)')
}

interface Mount {
  device: string
  options: string[]
}

/** The mounts of a table such as /proc/self/mounts, by their escaped mount point. */
export function mountsIn(table: string): Map<string, Mount[]> {
  const mounts = new Map<string, Mount[]>()
  for (const line of table.split('\n')) {
    const [device = '', mountPoint, , options = ''] = line.split(' ')
    if (mountPoint) mounts.set(mountPoint, [...(mounts.get(mountPoint) ?? []), { device, options: options.split(',') }])
  }
  return mounts
}

/** A path as the kernel escapes it in its table. */
export const inTable = (path: string): string =>
  path.replace(/[\s\\]/g, character => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`)

/** Whether a mount no longer accepts writes. */
export const isUnwritable = ({ options }: Mount): boolean =>
  options.some(option => /^(ro|emergency_ro|shutdown)$/.test(option))
