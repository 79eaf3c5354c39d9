import { MiB } from '../../lib/bytes.ts'

/** What the proxy says of requests to applications: max bytes of its one file, which is emptied then. It is looked at each second. */
export const applicationErrors = { bytes: 16 * MiB } as const

/** The log of each process: max bytes of a file, and number of retained files. */
export const processLogs = { bytes: 10 * MiB, pieces: 3 } as const
