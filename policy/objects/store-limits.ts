import { GiB, MiB } from '../../lib/bytes.ts'

/**
 * How a process syncs bodies to its disk. A sync occupies one of the process' 24 threads for files: 4 are always left for readers. Bodies of
 * up to `smallBytes` have slots of their own, since they must not wait for large ones, which are synced every `everyBytes` while they arrive.
 * So have the folders that name them, which are synced last.
 */
export const storeSyncs = {
  everyBytes: 32 * MiB,
  smallBytes: MiB,
  large: { atOnce: 4, perSubject: 2 },
  small: { atOnce: 8, perSubject: 6 },
  folders: { atOnce: 8 },
} as const

/**
 * Max objects of an account: some, and more for each GB that its plan includes. Usage counts bytes of contents only, and the rows of an
 * empty object take 1.2 KB, with all that it can be given up to 27 KB.
 */
export const includedObjects = { always: 1000, perGb: 100_000 } as const

/** Nothing is written to a disk with less free than this, of which Postgres may need the rest: bytes, and a share of a smaller disk. */
export const storeFloor = { bytes: GiB, share: 0.02, lookMs: 1000 } as const
