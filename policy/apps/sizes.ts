import { KiB, MiB } from '../../lib/bytes.ts'

/** Disk of an application with a given memory. Contract 11.3: 10 GB per 256 MB; an installation may set less. */
export function diskMbFor(ramMb: number, diskMbPer256Mb: number): number {
  return Math.ceil(ramMb / 256) * diskMbPer256Mb
}

/** What a disk for `fromMb` of memory needs to be one for `toMb`, as it never shrinks: memory and disk in MB. */
export function diskGrowth(fromMb: number, toMb: number, diskMbPer256Mb: number): { moreMb: number; diskMb: number } {
  const maxMb = Math.max(fromMb, toMb)
  const diskMb = diskMbFor(maxMb, diskMbPer256Mb) - diskMbFor(fromMb, diskMbPer256Mb)
  return { moreMb: maxMb - fromMb, diskMb }
}

/** Whole cores, as shown and granted: one for every 2 GB, at least one, at most 8. */
export function cpusFor(ramMb: number): number {
  return Math.min(8, Math.max(1, Math.floor(ramMb / 2048)))
}

/**
 * CPU shares when all processors are busy, derived from memory like all other limits: 1 for every 16 MB, 2 to 262144 (the range of the
 * kernel). Each of our processes has 1024, the default: applications of 16 GB together weigh no more than one of them.
 */
export function cpuSharesFor(ramMb: number): number {
  return Math.min(262_144, Math.max(2, Math.floor(ramMb / 16)))
}

/** Processes and threads together: one for every 4 MB, 64 to 512. */
export function pidsFor(ramMb: number): number {
  return Math.min(512, Math.max(64, Math.floor(ramMb / 4)))
}

/** Open files of one process: two for every MB, 1024 to 4096. */
export function openFilesFor(ramMb: number): number {
  return Math.min(4096, Math.max(1024, ramMb * 2))
}

/** Bytes of socket buffers in the kernel, where these do not count as memory: a quarter of the memory. */
export function socketBytesFor(ramMb: number): number {
  return (ramMb * MiB) / 4
}

/** Mbit/s in each direction (contract 11.3: 50 per 256 MB). */
export const bandwidthMbit = (ramMb: number, mbitPer256Mb: number): number =>
  Math.max(1, Math.round((ramMb / 256) * mbitPer256Mb))

/** Burst in bytes: 10 ms at the rate, and at least two packets of the maximum size that a program can send. */
export const bandwidthBurst = (mbit: number): number => Math.max(128 * KiB, Math.ceil((mbit * 1_000_000) / 8 / 100))
