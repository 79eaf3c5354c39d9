/**
 * What the files of an application may come to beyond the size of their disk, in bytes, and still have a snapshot. Holes and further
 * names of one file take nothing on the disk, but hours to copy, while nobody else on the host gets a snapshot.
 */
export const snapshotReserveBytes = 16 * 1024 ** 3
