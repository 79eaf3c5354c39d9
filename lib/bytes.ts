/** Bytes of each unit. */
export const KiB = 1024
export const MiB = 1024 * KiB
export const GiB = 1024 * MiB

/** Of a block of a disk. */
export const blockBytes = 4 * KiB

/** What a file of this size takes of a disk. */
export const onDisk = (bytes: number): number => Math.ceil(bytes / blockBytes) * blockBytes
