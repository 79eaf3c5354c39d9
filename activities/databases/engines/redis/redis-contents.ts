import type { Redis } from 'ioredis'
import { pause } from '../../../../lib/async/loop.ts'
import { type DatabaseContents, DumpCorrupt, dumpPlace, type EngineJob } from '../../contents.ts'
import { places } from '../../port.ts'
import { asPlatform } from './redis.ts'
import { digestOf } from './redis-digest.ts'

const dumpFile = 'dump.rdb'
/** Time for the engine to write or read all that it has. */
const copySeconds = 3600
const pollMs = 50

const folder = `${places.data}/appendonlydir`
/** What Redis calls the files of its log: a base, the changes since then, and a list of both. */
const log = 'appendonly.aof'
const manifest = `file ${log}.1.base.rdb seq 1 type b\\nfile ${log}.1.incr.aof seq 1 type i\\n`

/** Exit code of a job that found no intact dump. */
const damaged = 65

/** Users, with their passwords, are no part of a dump of Redis: they come from the settings. */
export const redisContents: DatabaseContents = {
  async dump(engine, job) {
    await asPlatform(engine, { seconds: copySeconds }, save)
    await job.run(['cp', '--sparse=never', `${places.data}/${dumpFile}`, `${dumpPlace}/${dumpFile}`])
    // The order in memory says nothing, and a live engine would change between its keys.
    return null
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

  digest: engine => asPlatform(engine, { seconds: copySeconds }, redis => digestOf(redis, engine.traits.version)),
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

/** Resolves when a snapshot is on disk that the engine began after this call. */
async function save(redis: Redis): Promise<void> {
  while (!(await begin(redis))) await pause(pollMs)
  for (;;) {
    const { busy, ok } = await progress(redis)
    if (!busy && !ok) throw new Error('it could not write its data to disk')
    if (!busy) return
    await pause(pollMs)
  }
}

/** False while another snapshot is written, the log is rewritten, or a script runs. */
async function begin(redis: Redis): Promise<boolean> {
  try {
    await redis.call('BGSAVE')
    return true
  } catch (error) {
    if (/^BUSY |in progress|child process is active/.test((error as Error).message)) return false
    throw error
  }
}

/** Of the last snapshot, from the answer to BGSAVE on. */
async function progress(redis: Redis): Promise<{ busy: boolean; ok: boolean }> {
  const info = String(await redis.call('INFO', 'persistence'))
  const read = (name: string) => info.match(new RegExp(`^${name}:(\\w+)`, 'm'))?.[1]
  return { busy: read('rdb_bgsave_in_progress') !== '0', ok: read('rdb_last_bgsave_status') === 'ok' }
}
