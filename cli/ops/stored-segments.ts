import { bodiesIn } from '../../activities/objects/filesystem.ts'
import { unknownBodies, verifyBodies } from '../../activities/objects/segment-verification.ts'
import { openObjectStore } from '../../activities/objects/select.ts'
import type { Db } from '../../db/database.ts'
import type { ObjectStoreConfig } from '../../policy/config.ts'
import { gigabytes } from '../blob.ts'
import { counted } from '../terminal/printable.ts'

/** The doctor's time limit for each of the two checks; `berth blob verify` has none. */
const timeLimitMs = 15_000

/** Whether every row has its segment, and every segment its row, in words. */
export async function storedSegments(db: Db, config: ObjectStoreConfig, limitMs = timeLimitMs): Promise<string> {
  const store = await openObjectStore(config)
  const deadline = Date.now() + limitMs
  let checked = { bodies: 0, bytes: 0, damaged: [] as unknown[] }
  const timeout = new AbortController()
  const onProgress = (state: typeof checked) => {
    checked = state
    if (Date.now() > deadline) timeout.abort()
  }
  const isComplete = await verifyBodies(db, store, { read: false, onProgress, signal: timeout.signal }).then(
    state => {
      checked = state
      return true
    },
    error => {
      if (timeout.signal.aborted) return false
      throw error
    },
  )
  const words = [
    `${isComplete ? '' : 'the first '}${counted(checked.bodies, 'segment')}, ${gigabytes(checked.bytes)}`,
    checked.damaged.length
      ? `${checked.damaged.length} MISSING OR OF WRONG SIZE - SEE berth blob verify`
      : 'all present',
  ]
  if (config.kind !== 'filesystem') return words.join('; ')
  const unreferenced: string[] = []
  const end = Date.now() + limitMs
  for await (const ids of bodiesIn(config.folder)) {
    unreferenced.push(...(await unknownBodies(db, store, ids)))
    if (Date.now() > end) break
  }
  const [first] = unreferenced
  return [
    ...words,
    first ? `${unreferenced.length} UNREFERENCED FILES, the first is ${first}` : 'no unreferenced file',
  ].join('; ')
}
