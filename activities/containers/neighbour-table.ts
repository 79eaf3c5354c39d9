import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Raises the kernel's table of neighbours, which all networks of a machine share, to `entries`, or leaves it unchanged if it is
 * larger. A program fills 253 entries with a packet to each address of its network, and once the table is full no container can
 * be reached. The firewall comes too late: the entry is created before a packet passes it. Throws where the process lacks the right.
 */
export function makeNeighbourRoom(entries: number, folder = '/proc/sys/net/ipv4/neigh/default'): void {
  // From gc_thresh2 on the kernel removes entries older than five seconds; it must not exceed gc_thresh3.
  for (const [name, room] of [
    ['gc_thresh3', entries],
    ['gc_thresh2', Math.floor(entries / 2)],
  ] as const) {
    const path = join(folder, name)
    if (Number(readFileSync(path, 'utf8')) < room) writeFileSync(path, `${room}\n`)
  }
}

/** Entries for a host with this memory for applications: enough even if all are of the smallest size (256 MB) and fill their networks. */
export const neighbourRoom = (memoryMb: number): number => Math.max(16_384, memoryMb)
