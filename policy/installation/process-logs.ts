import { MiB } from '../../lib/bytes.ts'

/** The log of each process: files of so many bytes, and how many of them are kept. */
export const processLogs = { bytes: 10 * MiB, pieces: 3 } as const
