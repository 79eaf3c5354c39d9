import { Redis, type RedisOptions } from 'ioredis'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { pause } from '../../../../lib/async/loop.ts'
import { withTimeout } from '../../../../lib/async/timeout.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { customerUser } from '../../../../policy/databases/connection-url.ts'
import { type DatabaseEngine, EngineLoads, EngineUnavailable, type LocalEngine } from '../../port.ts'
import { type EngineCall, engineCall, openSeconds } from '../engine-call.ts'
import { discardDrafts } from './redis-drafts.ts'
import { repairLog } from './redis-log.ts'
import {
  configFile,
  customerRules,
  dataMbOf,
  platformUser,
  redisSettings,
  socketFile,
  syncDirectives,
  tlsFiles,
  writeDirectives,
} from './redis-settings.ts'

const changeSeconds = 20
const pollMs = 50

export const redisEngine: DatabaseEngine = {
  settings: redisSettings,
  command: () => ['redis-server', configFile],
  // An empty folder is a database without data.
  initialise: () => [],
  socketName: () => socketFile,

  async ping(engine) {
    await asPlatform(engine, {}, async redis => {
      // Not PING, which is refused while the disk is full although the data are served. So they are while a customer's script runs.
      const info = String(
        await redis.call('INFO', 'persistence').catch(error => {
          if (!isReply(error, 'BUSY')) throw error
        }),
      )
      if (/^(async_)?loading:1/m.test(info)) throw new EngineLoads(loadedOf(info))
    })
  },

  async setPassword(engine) {
    await asPlatform(engine, { seconds: changeSeconds }, async redis => {
      await unlessBusy(redis, ['ACL', 'SETUSER', customerUser, ...customerRules(engine.secrets.password)])
      // Also who has not logged in yet: they are this user's, and could hold all connections.
      await unlessBusy(redis, ['CLIENT', 'KILL', 'USER', customerUser])
    })
    return 'in effect'
  },

  async login({ host, port, authority, servername }, password) {
    const tls = { ca: authority, servername, rejectUnauthorized: true }
    return conversation({ host, port, tls }, { secrets: [password] }, async redis => {
      try {
        await redis.call('AUTH', customerUser, password)
        return 'accepted'
      } catch (error) {
        if (isReply(error, 'WRONGPASS')) return 'refused'
        throw error
      }
    })
  },

  async reloadCertificate(engine) {
    await configure(engine, tlsFiles)
    return 'in effect'
  },

  async memory(engine) {
    const info = await asPlatform(engine, {}, redis => redis.call('INFO', 'memory'))
    return { usedBytes: numberIn(info, 'used_memory'), limitBytes: dataMbOf(engine.traits) * MiB }
  },

  repair: repairLog,
  discardDrafts,

  admitWrites: engine => configure(engine, writeDirectives(engine.traits)),
  adopt: engine => configure(engine, syncDirectives(engine.traits)),

  // What was deleted takes room in the log until that is written anew; so does what a full disk has left in it (redis-log.ts).
  async shrinkFiles(engine, freeBytes) {
    await asPlatform(engine, { seconds: changeSeconds }, async redis => {
      const info = await redis.call('INFO', 'memory', 'persistence')
      // The new log takes no more on the disk than its data take in memory.
      const newBytes = numberIn(info, 'used_memory')
      if (newBytes >= Math.min(freeBytes, numberIn(info, 'aof_current_size'))) return
      await unlessBusy(redis, ['BGREWRITEAOF']).catch(ignoreError('it is being written anew already'))
    })
  },
}

/** As far as Redis reports it; nothing while it starts. */
const loadedOf = (info: string): string => {
  const [, bytes = '0'] = /^loading_loaded_bytes:(\d+)/m.exec(info) ?? []
  return `${bytes} bytes`
}

export function numberIn(info: unknown, name: string): number {
  const [, number] = new RegExp(`^${name}:(\\d+)\r?$`, 'm').exec(String(info)) ?? []
  if (number === undefined) throw new EngineUnavailable(`Redis does not report ${name}.`)
  return Number(number)
}

const configure = (engine: LocalEngine, directives: Readonly<Record<string, string>>): Promise<void> =>
  asPlatform(engine, { seconds: changeSeconds }, redis =>
    unlessBusy(redis, ['CONFIG', 'SET', ...Object.entries(directives).flat()]),
  )

/** Sends a command that Redis refuses while it runs a script, and ends such scripts of the customer. */
async function unlessBusy(redis: Redis, [command, ...args]: [string, ...string[]]): Promise<void> {
  for (;;) {
    try {
      await redis.call(command, ...args)
      return
    } catch (error) {
      if (!isReply(error, 'BUSY')) throw error
    }
    for (const kind of ['SCRIPT', 'FUNCTION'])
      await redis.call(kind, 'KILL').catch(error => {
        if (isReply(error, 'UNKILLABLE')) throw error
      })
    await pause(pollMs)
  }
}

const isReply = (error: unknown, word: string): boolean =>
  error instanceof Error && error.message.startsWith(`${word} `)

/** One conversation as the platform's user, through the socket. `seconds`: of all of it; default 5. */
export async function asPlatform<T>(
  { socket, secrets, signal }: LocalEngine,
  { seconds }: { seconds?: number },
  work: (redis: Redis) => Promise<T>,
): Promise<T> {
  const call = { secrets: Object.values(secrets), seconds, signal }
  return conversation({ path: socket }, call, async redis => {
    const admitted = redis.call('AUTH', platformUser, secrets.platformPassword)
    await withTimeout(admitted, openSeconds * 1000, () => new Error(`no answer within ${openSeconds} s`))
    return work(redis)
  })
}

/** One connection without retries. The driver sends nothing by itself, so that every answer belongs to one of our commands. */
async function conversation<T>(
  to: RedisOptions,
  call: Omit<EngineCall, 'engine'>,
  work: (redis: Redis) => Promise<T>,
): Promise<T> {
  const redis = new Redis({
    ...to,
    lazyConnect: true,
    protocol: 2,
    disableClientInfo: true,
    enableReadyCheck: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    retryStrategy: null as never,
    connectTimeout: openSeconds * 1000,
    disconnectTimeout: 200,
  })
  let broken: unknown
  redis.on('error', error => {
    broken ??= error
  })
  const talk = async () => {
    try {
      await redis.connect()
      return await work(redis)
    } catch (error) {
      // The driver rejects what it did not send with "closed"; the event has the reason.
      throw broken ?? error
    }
  }
  return engineCall({ engine: 'redis', ...call }, talk, () => redis.disconnect())
}
