import { isDeepStrictEqual } from 'node:util'

/** What the proxy refused of one entry of a table. */
export interface EntryRefusal {
  host: string
  why: string
}

interface Table<Entry> {
  /** Those that have changed; undefined = all. */
  hosts: readonly string[] | undefined
  target: ReadonlyMap<string, Entry>
  /** What the proxy has: everything, or of these hosts. */
  list(hosts?: readonly string[]): Promise<ReadonlyMap<string, Entry>>
  set(host: string, entry: Entry): Promise<void>
  remove(host: string): Promise<void>
  /** What is wanted of one host now. With it each write is followed by another look: another keeper may have written a later state meanwhile. */
  current?(host: string): Promise<Entry | undefined>
  /** The error with which the proxy refuses an entry. */
  Refused: new (
    message: string,
  ) => Error
}

/** Makes a table of the proxy, or some entries of it, equal to what is wanted. An entry that the proxy refuses does not delay others. */
export async function reconcileTable<Entry>(
  table: Table<Entry>,
): Promise<{ changed: number; refused: EntryRefusal[] }> {
  const { hosts, target, list, set, remove, current, Refused } = table
  const refused: EntryRefusal[] = []
  const present = await list(hosts)
  let changed = 0
  const attempt = async (host: string, work: Promise<void>) => {
    try {
      await work
      changed++
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      refused.push({ host, why: error.message })
    }
  }
  const write = async (host: string, entry?: Entry): Promise<void> => {
    await (entry === undefined ? remove(host) : set(host, entry))
    if (!current) return
    const now = await current(host)
    if (!isDeepStrictEqual(now, entry)) await write(host, now)
  }
  for (const [host, entry] of target)
    if (!isDeepStrictEqual(present.get(host), entry)) await attempt(host, write(host, entry))
  for (const host of present.keys()) if (!target.has(host)) await attempt(host, write(host))
  return { changed, refused }
}
