import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Gives the kernel's table of neighbours, which all networks of a machine share, room for so many entries, or leaves it as it is where it
 * has more. A program fills 253 with a packet to each address of its network, and where the table is full nobody's container is
 * reached any more. The firewall comes too late: the entry is made before a packet passes it. Throws where the process may not.
 */
export function makeNeighbourRoom(entries: number, folder = '/proc/sys/net/ipv4/neigh/default'): void {
  // The second is where the kernel begins to clear away what is older than five seconds; it must not pass the third.
  for (const [name, room] of [
    ['gc_thresh3', entries],
    ['gc_thresh2', Math.floor(entries / 2)],
  ] as const) {
    const path = join(folder, name)
    if (Number(readFileSync(path, 'utf8')) < room) writeFileSync(path, `${room}\n`)
  }
}

/** Entries for a host with so much memory for applications: all of the smallest ones (256 MB) may fill theirs. */
export const neighbourRoom = (memoryMb: number): number => Math.max(16_384, memoryMb)
