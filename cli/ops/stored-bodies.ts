import { bodiesIn } from '../../activities/objects/filesystem.ts'
import { openObjectStore } from '../../activities/objects/select.ts'
import { unknownBodies, verifyBodies } from '../../activities/objects/stored-bodies.ts'
import type { Db } from '../../db/database.ts'
import type { ObjectStoreConfig } from '../../policy/config.ts'
import { gigabytes } from '../blob.ts'

/** The doctor looks no longer than this at each of the two; `berth blob verify` looks at everything. */
const patienceMs = 15_000

/** Whether every row has its body, and every body its row, in words. */
export async function storedBodies(db: Db, config: ObjectStoreConfig, lookMs = patienceMs): Promise<string> {
  const store = await openObjectStore(config)
  const deadline = Date.now() + lookMs
  let seen = { bodies: 0, bytes: 0, damaged: [] as unknown[] }
  const over = new AbortController()
  const progress = (so: typeof seen) => {
    seen = so
    if (Date.now() > deadline) over.abort()
  }
  const whole = await verifyBodies(db, store, { read: false, progress, signal: over.signal }).then(
    so => {
      seen = so
      return true
    },
    error => {
      if (over.signal.aborted) return false
      throw error
    },
  )
  const words = [
    `${whole ? '' : 'the first '}${seen.bodies} ${seen.bodies === 1 ? 'body' : 'bodies'}, ${gigabytes(seen.bytes)}`,
    seen.damaged.length ? `${seen.damaged.length} MISSING OR OF ANOTHER SIZE - SEE berth blob verify` : 'all there',
  ]
  if (config.kind !== 'filesystem') return words.join('; ')
  const unknown: string[] = []
  const end = Date.now() + lookMs
  for await (const ids of bodiesIn(config.folder)) {
    unknown.push(...(await unknownBodies(db, store, ids)))
    if (Date.now() > end) break
  }
  const [first] = unknown
  return [
    ...words,
    first ? `${unknown.length} FILES THAT NOTHING REFERS TO, the first is ${first}` : 'no file that nothing refers to',
  ].join('; ')
}
