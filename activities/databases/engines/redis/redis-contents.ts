import { dirname } from 'node:path'
import type { Redis } from 'ioredis'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { pause } from '../../../../lib/async/loop.ts'
import { databaseSeconds } from '../../../../policy/databases/database-steps.ts'
import { diskVerdict, hasRoomToDump } from '../../../../policy/databases/disk-guard.ts'
import { type DatabaseContents, DumpCorrupt, DumpPrevented, dumpPlace, type EngineJob } from '../../contents.ts'
import { diskSpace } from '../../disk-space.ts'
import { places } from '../../port.ts'
import { asPlatform, numberIn } from './redis.ts'
import { redisDigestOf } from './redis-digest.ts'
import { discardDumps, discardLeftDump, dumpFile, emptyDumps } from './redis-drafts.ts'

const { copy: copySeconds } = databaseSeconds
const pollMs = 50

const folder = `${places.data}/appendonlydir`
/** What Redis calls the files of its log: a base, the changes since then, and a list of both. */
const log = 'appendonly.aof'
const manifest = `file ${log}.1.base.rdb seq 1 type b\\nfile ${log}.1.incr.aof seq 1 type i\\n`

/** Exit code of a job that found no intact dump. */
const damaged = 65

/**
 * Users, with their passwords, are no part of a dump of Redis: they come from the settings. `scriptSeconds`: how long scripts of the customer
 * may keep a dump from being made.
 */
export const redisContentsWithin = (scriptSeconds: number): DatabaseContents => ({
  async dump(engine, job) {
    // A snapshot that may still be written keeps its name, by which the next dump finds it.
    let leave = emptyDumps
    try {
      const outcome = await asPlatform(engine, { seconds: copySeconds }, redis => save(redis, job.data, scriptSeconds))
      if (outcome !== 'script') leave = discardDumps
      if (outcome !== 'done') throw new DumpPrevented(preventedWords[outcome])
      await takeAway(job)
      // The order in memory means nothing, and a live engine would change between its keys.
      return null
    } finally {
      await leave(job.data).catch(ignoreError('the next dump removes it, and the outcome of this one counts'))
    }
  },

  async loadBeforeStart(_traits, job) {
    await checked(job, [
      `test -f ${dumpPlace}/${dumpFile} || { echo 'there is no ${dumpFile}'; exit ${damaged}; }`,
      `redis-check-rdb ${dumpPlace}/${dumpFile} || exit ${damaged}`,
      `rm -rf ${folder}`,
      `mkdir -m 0700 ${folder}`,
      `cp ${dumpPlace}/${dumpFile} ${folder}/${log}.1.base.rdb`,
      `: > ${folder}/${log}.1.incr.aof`,
      `printf '${manifest}' > ${folder}/${log}.manifest`,
    ])
  },

  async load() {},

  digest: engine => asPlatform(engine, { seconds: copySeconds }, redis => redisDigestOf(redis)),
})

export const redisContents = redisContentsWithin(databaseSeconds.script)

/** Copies the snapshot out of the disk of its database, where it still takes room meanwhile. */
async function takeAway(job: EngineJob): Promise<void> {
  const room = new DumpRoom(job.data)
  const ending = new AbortController()
  const copied = job.run(['cp', '--sparse=never', `${places.data}/${dumpFile}`, `${dumpPlace}/${dumpFile}`], {
    signal: ending.signal,
  })
  const watch = async () => {
    while (!ending.signal.aborted && !(await room.isGivenUp())) await pause(pollMs, ending.signal)
  }
  try {
    await Promise.race([copied, watch()])
  } finally {
    ending.abort()
    await copied.catch(ignoreError('the first of both says how it ended'))
  }
  // What was emptied meanwhile was copied in part, with success.
  if (room.hasBeenGivenUp) throw new DumpPrevented(preventedWords['no room'])
}

async function checked(job: EngineJob, steps: string[]): Promise<void> {
  try {
    await job.run(['sh', '-ec', steps.join('\n')])
  } catch (error) {
    if (error instanceof Error && error.message.includes(`ended with exit code ${damaged}`))
      throw new DumpCorrupt('The dump of Redis is damaged or incomplete.', { cause: error })
    throw error
  }
}

/** Why there is no dump. */
const preventedWords = {
  script: 'The database runs a script that does not end.',
  'no room':
    'The disk of the database has no room for its data next to its log. Give it more memory, and with it more disk, or delete some of the data.',
} as const

type Outcome = 'done' | keyof typeof preventedWords
type Progress = Outcome | 'waits'

/** Resolves to `done` when a snapshot is on disk that the engine began after this call; otherwise to why there is none. */
async function save(redis: Redis, data: string, scriptSeconds: number): Promise<Outcome> {
  const start = await until(() => begin(redis, data), scriptSeconds)
  return start === 'done' ? until(progressOf(redis, data), scriptSeconds) : start
}

/** Polls until it is over; resolves to `script` once scripts have blocked the engine for too long. */
async function until(ask: () => Promise<Progress>, scriptSeconds: number): Promise<Outcome> {
  for (let answeredAt = performance.now(); ; await pause(pollMs)) {
    const progress = await ask().catch((error: Error): Progress => {
      if (error.message.startsWith('BUSY ')) return 'script'
      throw error
    })
    if (progress === 'waits') answeredAt = performance.now()
    else if (progress !== 'script' || performance.now() - answeredAt > scriptSeconds * 1000) return progress
  }
}

/** Null where the disk is not its own. */
const spaceOf = (data: string) => diskSpace(dirname(data))

/** What a dump takes of the disk of its database. It is given back when the disk gets full: that of the log comes first. */
class DumpRoom {
  readonly #data: string
  hasBeenGivenUp = false

  constructor(data: string) {
    this.#data = data
  }

  /** For frequent calls: Redis has no command that ends a snapshot. It goes on writing, and each call removes what it has written. */
  async isGivenUp(): Promise<boolean> {
    const space = await spaceOf(this.#data)
    this.hasBeenGivenUp ||= space !== null && diskVerdict(space, false) === 'end writes'
    if (this.hasBeenGivenUp) await emptyDumps(this.#data)
    return this.hasBeenGivenUp
  }
}

/** A child of the engine, of which it has one at a time: it writes a snapshot, or the log anew. */
const activeChild = /^(rdb_bgsave|aof_rewrite|module_fork)_in_progress:1/m

/** `waits` while another snapshot is written, or the log is rewritten. What an earlier dump has left takes no room from this one. */
async function begin(redis: Redis, data: string): Promise<Progress> {
  await new DumpRoom(data).isGivenUp()
  if (activeChild.test(String(await redis.call('INFO', 'persistence')))) return 'waits'
  await discardLeftDump(data).catch(ignoreError('it counts as data'))
  const space = await spaceOf(data)
  // It takes no more on the disk than its data in memory, and is written next to the log, without which the engine ends.
  if (space && !hasRoomToDump(space, numberIn(await redis.call('INFO', 'memory'), 'used_memory'))) return 'no room'
  try {
    await redis.call('BGSAVE')
    return 'done'
  } catch (error) {
    if (/in progress|child process is active/.test((error as Error).message)) return 'waits'
    throw error
  }
}

/** Of the last snapshot, from the answer to BGSAVE on. */
function progressOf(redis: Redis, data: string): () => Promise<Progress> {
  const room = new DumpRoom(data)
  return async () => {
    const isGivenUp = await room.isGivenUp()
    const info = String(await redis.call('INFO', 'persistence'))
    const read = (name: string) => info.match(new RegExp(`^${name}:(\\w+)`, 'm'))?.[1]
    if (read('rdb_bgsave_in_progress') !== '0') return 'waits'
    if (isGivenUp) return 'no room'
    if (read('rdb_last_bgsave_status') !== 'ok') throw new Error('it could not write its data to disk')
    return 'done'
  }
}
