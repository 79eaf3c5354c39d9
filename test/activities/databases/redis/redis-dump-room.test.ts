import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type { Redis } from 'ioredis'
import { DumpPrevented, type EngineJob } from '../../../../activities/databases/contents.ts'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { asPlatform, redisEngine } from '../../../../activities/databases/engines/redis/redis.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { type EngineContainer, engineContainer } from '../../../kit/databases/engine-container.ts'
import { redisClient, redisOptions } from '../../../kit/databases/redis-customer.ts'

/** An engine on a real disk of 200 MB, of which 32 are kept for the ballast, with 40 MB of data that cannot be packed. */
async function scene() {
  const database = await engineContainer({
    ...{ adapter: redisEngine, engine: 'redis', version: '8', memoryMb: 256, diskMb: 200 },
  })
  await database.prepare()
  await database.settled(await database.locally(redisEngine.setPassword))
  const client = await redisClient(redisOptions(database.remote, database.secrets().password))
  for (let number = 0; number < 400; number++) await client.set(`large ${number}`, randomBytes(100 * 1024))
  return {
    database,
    client,
    async clean() {
      client.disconnect()
      await database.clean()
    },
  }
}

const freeBytes = (volume: string): number => {
  const { bavail, bsize } = statfsSync(volume)
  return bavail * bsize
}

/** Something else takes what is more than this on its disk. */
const take = ({ volume }: EngineContainer, leftMb: number): void => {
  execFileSync('fallocate', ['--length', String(freeBytes(volume) - leftMb * MiB), join(volume, 'taken')])
}
const giveBack = ({ volume }: EngineContainer): void => rmSync(join(volume, 'taken'))

const dumpOf = (database: EngineContainer) =>
  database.locally(local => contentsOf('redis').dump(local, database.job('/dev/null')))

/** A dump whose copy takes no room afterwards: unlike that of a host, it is on the disk of its database. */
async function dumpAside(database: EngineContainer, change: (job: EngineJob) => Partial<EngineJob>): Promise<void> {
  const folder = database.dumpFolder()
  const job = database.job(folder)
  try {
    await database.locally(local => contentsOf('redis').dump(local, { ...job, ...change(job) }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Snapshots take 4 s from now on. */
const slowDown = (database: EngineContainer) =>
  database.locally(local =>
    // Of each key, in microseconds.
    asPlatform(local, {}, redis => redis.call('CONFIG', 'SET', 'rdb-key-save-delay', 10_000)),
  )

/** Writes one small value after the other; `end` resolves to how many were acknowledged, and rejects when one was not. */
function writing(client: Redis) {
  let isOver = false
  const written = (async () => {
    let count = 0
    for (; !isOver; count++) await client.set('small', count)
    return count
  })()
  written.catch(() => {})
  return {
    end(): Promise<number> {
      isOver = true
      return written
    },
  }
}

const noRoom = { instanceOf: DumpPrevented, message: /no room for its data next to its log/ }

test.serial('redis: a dump for which the disk has no room is refused before it is begun, and writes go on', async t => {
  const { database, client, clean } = await scene()
  try {
    take(database, 70)
    const free = freeBytes(database.volume)
    const writes = writing(client)
    await t.throwsAsync(dumpOf(database), noRoom)
    t.true((await writes.end()) > 0)
    t.deepEqual(readdirSync(database.folders.data), ['appendonlydir'])
    t.true(free - freeBytes(database.volume) < 5 * MiB)
    giveBack(database)
    // There is no folder for it.
    await t.throwsAsync(dumpOf(database), { message: /dev.null|cp/ })
  } finally {
    await clean()
  }
})

test.serial('redis: what an earlier dump has left, or still writes, takes no room from the next one', async t => {
  const { database, clean } = await scene()
  const left = join(database.folders.data, 'dump.rdb')
  try {
    const dump = () => dumpAside(database, job => job)
    execFileSync('fallocate', ['--length', String(85 * MiB), left])
    await t.notThrowsAsync(dump())
    await database.locally(local =>
      asPlatform(local, {}, async redis => {
        // Of each key, in microseconds: 4 s for all.
        await redis.call('CONFIG', 'SET', 'rdb-key-save-delay', 10_000)
        await redis.call('BGSAVE')
        await redis.call('CONFIG', 'SET', 'rdb-key-save-delay', 0)
      }),
    )
    execFileSync('fallocate', ['--length', String(75 * MiB), left])
    await t.notThrowsAsync(dump())
    t.deepEqual(readdirSync(database.folders.data), ['appendonlydir'])
  } finally {
    await clean()
  }
})

test.serial('redis: a dump gives its room back when the disk gets full meanwhile, and writes go on', async t => {
  const { database, client, clean } = await scene()
  try {
    await slowDown(database)
    const writes = writing(client)
    const dump = dumpOf(database)
    dump.catch(() => {})
    const hasBegun = () => readdirSync(database.folders.data).some(name => /^temp-\d+\.rdb$/.test(name))
    await comesTrue(hasBegun)
    take(database, 34)
    const lowest = { bytes: Number.POSITIVE_INFINITY }
    const looking = (async () => {
      for (; hasBegun(); await sleep(20)) lowest.bytes = Math.min(lowest.bytes, freeBytes(database.volume))
    })()
    await t.throwsAsync(dump, noRoom)
    await looking
    t.true((await writes.end()) > 0)
    t.true(lowest.bytes > 20 * MiB, `${lowest.bytes} bytes were left`)
    t.deepEqual(readdirSync(database.folders.data), ['appendonlydir'])
    t.true((await database.state())?.running)
    t.is(await client.dbsize(), 401)
  } finally {
    await clean()
  }
})

test.serial(
  'redis: a dump gives its room back when the disk gets full while it is taken away, and writes go on',
  async t => {
    const { database, client, clean } = await scene()
    const sizes: number[] = []
    try {
      const writes = writing(client)
      const dump = dumpAside(database, job => ({
        async run(_, options) {
          const measure = () => sizes.push(statSync(join(database.folders.data, 'dump.rdb')).size)
          measure()
          options?.signal?.addEventListener('abort', measure)
          take(database, 34)
          // Until it is ended.
          await job.run(['sleep', '60'], options)
        },
      }))
      await t.throwsAsync(dump, noRoom)
      t.true((await writes.end()) > 0)
      t.true(sizes[0]! > 40_000_000)
      t.is(sizes[1], 0)
      t.deepEqual(readdirSync(database.folders.data), ['appendonlydir'])
    } finally {
      await clean()
    }
  },
)

test.serial(
  'redis: a dump that is cancelled while its snapshot is written gives the room back immediately',
  async t => {
    const { database, clean } = await scene()
    try {
      await slowDown(database)
      const cancelling = new AbortController()
      const { signal } = cancelling
      const dump = database.locally(local => contentsOf('redis').dump({ ...local, signal }, database.job('/dev/null')))
      dump.catch(() => {})
      const written = () => {
        const name = readdirSync(database.folders.data).find(name => /^(temp-\d+|dump)\.rdb$/.test(name))
        return name ? statSync(join(database.folders.data, name)) : null
      }
      await comesTrue(() => (written()?.size ?? 0) > 4 * MiB)
      cancelling.abort()
      await t.throwsAsync(dump, { any: true })
      // What is written from then on comes after a hole.
      await comesTrue(() => written()?.size !== 0)
      const { size, blocks } = written()!
      t.true(size - blocks * 512 > 3 * MiB, `${blocks} blocks of ${size} bytes`)
      await t.throwsAsync(dumpOf(database), { message: /dev.null|cp/ }, 'the next one waits for it')
      t.deepEqual(readdirSync(database.folders.data), ['appendonlydir'])
    } finally {
      await clean()
    }
  },
)
