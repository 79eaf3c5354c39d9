import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { loop } from '../../lib/async/loop.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { dayMs } from '../../lib/time.ts'
import { retainedDays } from '../../policy/network/analytics-terms.ts'

const lookEveryMs = 3_600_000
/** Where an engine has what it works on: lines with client addresses. */
export const scratchOf = (folder: string): string => join(folder, 'scratch')

const dayFile = /^(\d{4}-\d{2}-\d{2})\.(duckdb(\.wal)?(\.broken)?|dropped)$/

/** The day of UTC of a time in Unix milliseconds. */
export const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10)

/** The oldest day that is retained at a time in Unix milliseconds. */
export const firstDay = (now: number): string => dayOf(now - (retainedDays - 1) * dayMs)

/** Removes days that are too old, and lines that a killed engine was taking in, from a folder that no engine has open. One that is missing has none. */
async function removeExpired(folder: string): Promise<void> {
  await rm(scratchOf(folder), { recursive: true, force: true })
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const oldest = firstDay(Date.now())
  const expired = names.filter(name => (dayFile.exec(name)?.[1] ?? oldest) < oldest)
  for (const name of expired) await rm(join(folder, name), { force: true })
  if (expired.length > 0) await syncFolder(folder)
}

interface Expiry {
  over: AbortSignal
  onError: (error: unknown) => void
}

/**
 * Removes days of analytics that become too old while nothing counts requests: they have client addresses, which are not stored for
 * longer. Looks immediately and every hour; resolves after `over`.
 */
export const expireDays = (folder: string, { over, onError }: Expiry): Promise<void> =>
  loop(() => removeExpired(folder), { signal: over, everyMs: lookEveryMs, onError })
