import { MiB } from '../../lib/bytes.ts'

/** The log of each process: max bytes of a file, and number of retained files. */
export const processLogs = { bytes: 10 * MiB, pieces: 3 } as const
