export interface Mount {
  device: string
  options: string[]
}

/** The mounts of a table such as /proc/self/mounts, by their place as the table writes it. */
export function mountsIn(table: string): Map<string, Mount[]> {
  const mounts = new Map<string, Mount[]>()
  for (const line of table.split('\n')) {
    const [device = '', place, , options = ''] = line.split(' ')
    if (place) mounts.set(place, [...(mounts.get(place) ?? []), { device, options: options.split(',') }])
  }
  return mounts
}

/** A path as the kernel writes it in its table. */
export const inTable = (path: string): string =>
  path.replace(/[\s\\]/g, character => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`)

/** Whether nothing can be written to a mount any more. */
export const takesNothing = ({ options }: Mount): boolean =>
  options.some(option => /^(ro|emergency_ro|shutdown)$/.test(option))
