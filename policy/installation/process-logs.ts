/** The log of each process: files of so many bytes, and how many of them are kept. */
export const processLogs = { bytes: 10 * 1024 * 1024, pieces: 3 } as const
