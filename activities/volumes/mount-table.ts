export interface Mount {
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
