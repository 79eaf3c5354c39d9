import type { Redis } from 'ioredis'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { pause } from '../../../../lib/async/loop.ts'
import { databaseSeconds } from '../../../../policy/databases/database-steps.ts'
import { type DatabaseContents, DumpCorrupt, DumpPrevented, dumpPlace, type EngineJob } from '../../contents.ts'
import { places } from '../../port.ts'
import { asPlatform } from './redis.ts'
import { digestOf } from './redis-digest.ts'
import { discardDumps, dumpFile } from './redis-drafts.ts'

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
    try {
      const saved = await asPlatform(engine, { seconds: copySeconds }, redis => save(redis, scriptSeconds))
      if (!saved) throw new DumpPrevented('The database runs a script that does not end.')
      await job.run(['cp', '--sparse=never', `${places.data}/${dumpFile}`, `${dumpPlace}/${dumpFile}`])
      // The order in memory says nothing, and a live engine would change between its keys.
      return null
    } finally {
      await discardDumps(job.data).catch(ignoreError('the next dump removes it, and the outcome of this one counts'))
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

  digest: engine => asPlatform(engine, { seconds: copySeconds }, redis => digestOf(redis)),
})

export const redisContents = redisContentsWithin(databaseSeconds.script)

async function checked(job: EngineJob, steps: string[]): Promise<void> {
  try {
    await job.run(['sh', '-ec', steps.join('\n')])
  } catch (error) {
    if (error instanceof Error && error.message.includes(`ended with exit code ${damaged}`))
      throw new DumpCorrupt('The dump of Redis is damaged or incomplete.', { cause: error })
    throw error
  }
}

type Progress = 'waits' | 'done' | 'script'

/** Resolves to true when a snapshot is on disk that the engine began after this call; to false when a script runs for too long. */
async function save(redis: Redis, scriptSeconds: number): Promise<boolean> {
  return (await until(redis, begin, scriptSeconds)) && until(redis, progress, scriptSeconds)
}

/** Asks until it is done; resolves to false once one script after another has kept the engine from answering. */
async function until(redis: Redis, ask: (redis: Redis) => Promise<Progress>, scriptSeconds: number): Promise<boolean> {
  for (let answeredAt = performance.now(); ; await pause(pollMs)) {
    const said = await ask(redis).catch((error: Error): Progress => {
      if (error.message.startsWith('BUSY ')) return 'script'
      throw error
    })
    if (said === 'done') return true
    if (said === 'waits') answeredAt = performance.now()
    else if (performance.now() - answeredAt > scriptSeconds * 1000) return false
  }
}

/** `waits` while another snapshot is written, or the log is rewritten. */
async function begin(redis: Redis): Promise<Progress> {
  try {
    await redis.call('BGSAVE')
    return 'done'
  } catch (error) {
    if (/in progress|child process is active/.test((error as Error).message)) return 'waits'
    throw error
  }
}

/** Of the last snapshot, from the answer to BGSAVE on. */
async function progress(redis: Redis): Promise<Progress> {
  const info = String(await redis.call('INFO', 'persistence'))
  const read = (name: string) => info.match(new RegExp(`^${name}:(\\w+)`, 'm'))?.[1]
  if (read('rdb_bgsave_in_progress') !== '0') return 'waits'
  if (read('rdb_last_bgsave_status') !== 'ok') throw new Error('it could not write its data to disk')
  return 'done'
}
