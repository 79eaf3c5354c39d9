import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import type { Redis } from 'ioredis'
import { DumpPrevented, type EngineJob } from '../../../../activities/databases/contents.ts'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { asPlatform, redisEngine } from '../../../../activities/databases/engines/redis/redis.ts'
import { redisContentsWithin } from '../../../../activities/databases/engines/redis/redis-contents.ts'
import { redisDigestOf } from '../../../../activities/databases/engines/redis/redis-digest.ts'
import type { DigestLimits } from '../../../../activities/databases/engines/redis/redis-sums.ts'
import { withTimeout } from '../../../../lib/async/timeout.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { type ContentsUnderTest, databaseContentsContract } from '../../../contracts/database-contents.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import type { EngineContainer } from '../../../kit/databases/engine-container.ts'
import { redisClient, redisOptions } from '../../../kit/databases/redis-customer.ts'

type Command = [name: string, ...args: (string | number | Buffer)[]]

const binary = Buffer.from([0, 1, 0xff, 0x0a, 0x0d, 0x22, 0xfe])
const numbers = (count: number) => Array.from({ length: count }, (_, number) => number)
const expiresAt = 4_000_000_000_123

/** By database. The order of those in one list does not matter. */
const commands: Record<number, Command[]> = {
  0: [
    ['SET', 'plain', 'ä — 日本 🐘'],
    ['SET', binary, binary],
    ['SET', '', 'the empty key'],
    ['SET', 'empty', ''],
    ['SET', 'with\nline "and" quote', 'x'],
    ['SET', 'number', 42],
    ['SET', 'large', 'x'.repeat(3 * 1024 * 1024)],
    ['SET', 'expires', 'later', 'PXAT', expiresAt],
    ['RPUSH', 'list', ...numbers(2500), '', binary],
    ['SADD', 'small set', 3, 1, 2],
    ['SADD', 'set', ...numbers(3000).map(number => `member ${number}`), binary],
    ['HSET', 'hash', ...numbers(3000).flatMap(number => [`field ${number}`, `value ${number}`])],
    ['HSET', 'small hash', 'a', 'b', binary, binary],
    ['ZADD', 'zset', '-inf', 'first', '0.1', 'b', '1e300', 'c', '+inf', 'last', 1.0000000000000002, binary],
    ['ZADD', 'large zset', ...numbers(1500).flatMap(number => [number / 7, `m${number}`])],
    ['PFADD', 'about', ...numbers(100)],
    ['GEOADD', 'places', 13.361389, 38.115556, 'Palermo', 15.087269, 37.502669, 'Catania'],
    ['SETBIT', 'bits', 100_000, 1],
  ],
  15: [
    ['SET', 'plain', 'another database'],
    ['SET', 'more', '1'],
  ],
}

/** Those of a stream depend on those before. */
const stream: Command[] = [
  ...numbers(1200).map((number): Command => ['XADD', 'stream', `${number + 1}-1`, 'n', number, binary, binary]),
  ['XDEL', 'stream', '7-1'],
  ['XGROUP', 'CREATE', 'stream', 'group', '0'],
  ['XREADGROUP', 'GROUP', 'group', 'alice', 'COUNT', 3, 'STREAMS', 'stream', '>'],
  ['XACK', 'stream', 'group', '2-1'],
]

/** Each process lists them in an order of its own. */
const functions = ['mine', 'other', 'third', ...numbers(9).map(number => `library${number}`)].map(
  (library): Command => {
    const names =
      library === 'mine' ? ['one', 'two', 'three', 'four'] : [`${library}_a`, `${library}_b`, `${library}_c`]
    const code = names.map(name => `redis.register_function('${name}', function() return 1 end)`)
    return ['FUNCTION', 'LOAD', [`#!lua name=${library}`, ...code].join('\n')]
  },
)

async function customer<T>({ remote, secrets }: EngineContainer, work: (client: Redis) => Promise<T>): Promise<T> {
  const client = await redisClient(redisOptions(remote, secrets().password))
  try {
    return await work(client)
  } finally {
    client.disconnect()
  }
}

const run = (database: EngineContainer, list: Command[], number = 0): Promise<void> =>
  customer(database, async client => {
    await client.select(number)
    for (const [name, ...args] of list) await client.call(name, ...args)
  })

const one =
  (command: Command, number = 0) =>
  (database: EngineContainer): Promise<void> =>
    run(database, [command], number)

const fieldsExpire: Command[] = [
  ['HSET', 'fields', 'stays', '1', 'goes', '2'],
  ['HPEXPIREAT', 'fields', expiresAt, 'FIELDS', 1, 'goes'],
  ['VADD', 'vectors', 'VALUES', 3, 1, 0, 0.5, 'one', 'NOQUANT'],
  ['VADD', 'vectors', 'VALUES', 3, 0, 1, 0.25, 'two', 'NOQUANT', 'SETATTR', '{"a":1}'],
]

async function found(t: ExecutionContext, database: EngineContainer): Promise<void> {
  await customer(database, async client => {
    t.is(await client.get('plain'), 'ä — 日本 🐘')
    t.deepEqual(await client.getBuffer(binary), binary)
    t.is(await client.get(''), 'the empty key')
    t.is(await client.call('PEXPIRETIME', 'expires'), expiresAt)
    t.is(await client.get('expires'), 'later')
    t.deepEqual(await client.lrange('list', 0, 2), ['0', '1', '2'])
    t.is(await client.scard('set'), 3001)
    t.is(await client.hget('hash', 'field 2999'), 'value 2999')
    t.is(await client.zscore('zset', 'last'), 'inf')
    t.is(await client.xlen('stream'), 1199)
    const pending = (await client.xpending('stream', 'group')) as unknown[]
    t.deepEqual(pending.slice(0, 3), [2, '1-1', '3-1'])
    t.is(await client.call('FCALL', 'one', 0), 1)
    await client.select(15)
    t.is(await client.get('plain'), 'another database')
    await client.select(0)
    await t.throwsAsync(client.call('CONFIG', 'SET', 'maxmemory', '0'), { message: /NOPERM/ })
  })
}

const common = (version: string, more: Command[]): ContentsUnderTest => ({
  adapter: redisEngine,
  contents: contentsOf('redis'),
  engine: 'redis',
  version,
  memoryMb: 256,
  files: ['dump.rdb'],
  digestOfDump: false,
  loadsBeforeStart: true,
  found,
  async write(database) {
    for (const [number, list] of Object.entries(commands)) await run(database, list, Number(number))
    await run(database, [...stream, ...functions, ...more])
  },
  async writeOtherwise(database) {
    await run(database, [...stream, ...functions.toReversed(), ...more])
    // Elements in another order, and memory of another shape, because there was more in it before.
    await run(database, [
      ['SADD', 'set', ...numbers(9000).map(number => `other ${number}`)],
      ['SADD', 'small set', 'text', 1],
      ['SREM', 'small set', 'text'],
    ])
    for (const [number, list] of Object.entries(commands).reverse())
      await run(database, list.map(turned).reverse(), Number(number))
    await run(database, [
      ['SREM', 'set', ...numbers(9000).map(number => `other ${number}`)],
      ['SET', 'gone', 1],
      ['DEL', 'gone'],
    ])
  },
  changes: {
    'a value': one(['SET', 'number', 43]),
    'a key': one(['SET', 'new', '']),
    'a key less': one(['DEL', 'new2', 'plain']),
    'a key in another database': one(['SET', 'more', '2'], 15),
    'the last byte of a large value': one(['SETRANGE', 'large', 3 * 1024 * 1024 - 1, 'y']),
    'the order of a list': one(['LMOVE', 'list', 'list', 'LEFT', 'RIGHT']),
    'a member': one(['SADD', 'set', 'new']),
    'a field': one(['HSET', 'hash', 'field 2999', 'other']),
    'a score': one(['ZADD', 'large zset', 0.5, 'm1499']),
    'an entry of a stream': one(['XDEL', 'stream', '900-1']),
    'what a consumer has acknowledged': one(['XACK', 'stream', 'group', '1-1']),
    'a type': one(['LPUSH', 'new list', '1']),
    'a function': one(['FUNCTION', 'DELETE', 'mine']),
    'a key that expires from now on': one(['PEXPIREAT', 'empty', expiresAt]),
    'a database': one(['FLUSHDB'], 15),
    everything: one(['FLUSHALL']),
  },
  async secrets({ secrets }) {
    return Object.values(secrets()).map(text => createHash('sha256').update(text).digest('hex'))
  },
})

/** The same elements from the last to the first, where their order says nothing. */
function turned([name, key, ...args]: Command): Command {
  const width = { SADD: 1, HSET: 2, ZADD: 2, GEOADD: 3 }[name]
  if (!width) return [name, key!, ...args]
  const groups: Command[1][][] = []
  for (let at = 0; at < args.length; at += width) groups.push(args.slice(at, at + width))
  return [name, key!, ...groups.reverse().flat()]
}

const { serving, copying } = databaseContentsContract(test.serial, 'redis 8', () => common('8', fieldsExpire))
databaseContentsContract(test.serial, 'redis 7', () => common('7', []))

test.serial('redis: what has expired between a dump and a load does not make the copy another', async t => {
  const database = await serving()
  await run(database, [
    ['SET', 'stays', '1'],
    ['SET', 'expires', '1', 'PX', 1000],
    ['HSET', 'fields', 'stays', '1', 'expires', '2'],
    ['HPEXPIRE', 'fields', 1000, 'FIELDS', 1, 'expires'],
    ['HSET', 'all fields', 'expires', '1'],
    ['HPEXPIRE', 'all fields', 1000, 'FIELDS', 1, 'expires'],
  ])
  const digest = await database.locally(contentsOf('redis').digest)
  const { traits } = database
  // Redis has such fields since 7.4, whose major version is 7.
  const asEarlier = await database.locally(local =>
    contentsOf('redis').digest({ ...local, traits: { ...traits, version: '7' } }),
  )
  t.is(asEarlier, digest)
  await copying(database, async (copy, digests) => {
    await comesTrue(() => customer(copy, async client => (await client.exists('expires', 'all fields')) === 0))
    t.is(digests.copy, digest)
    t.is(await copy.locally(contentsOf('redis').digest), digest)
    await customer(copy, async client => t.deepEqual(await client.hgetall('fields'), { stays: '1' }))
  })
})

test.serial('redis: a dump is complete and present while a customer writes', async t => {
  const database = await serving()
  // Enough for the engine to write for a while.
  await run(
    database,
    numbers(30).map((number): Command => ['SET', `large ${number}`, randomBytes(3 * MiB)]),
  )
  await database.locally(local => contentsOf('redis').dump(local, database.job(database.dumpFolder())))
  let written = 0
  let writing = true
  const writer = customer(database, async client => {
    for (; writing; written++)
      await client.multi().set('one', written).set('other', written).sadd('all', written).exec()
  })
  await comesTrue(() => written > 100)
  const before = written
  const dumpEnded = async () => {
    writing = false
    await writer
  }
  const check = async (copy: EngineContainer) => {
    await customer(copy, async client => {
      const [one, other] = await client.mget('one', 'other')
      t.is(one, other)
      t.true(Number(one) >= before - 1)
      t.is(await client.scard('all'), Number(one) + 1)
    })
  }
  await copying(database, check, dumpEnded).finally(() => {
    writing = false
  })
})

test.serial(
  'redis: a dump leaves nothing but the log on the disk of its owner, also when it fails, and follows no links',
  async t => {
    const database = await serving()
    const { data } = database.folders
    const dump = (job: Partial<EngineJob> = {}) =>
      database.locally(local => contentsOf('redis').dump(local, { ...database.job(database.dumpFolder()), ...job }))
    const elsewhere = join(database.dumpFolder({ kept: Buffer.from('1') }), 'kept')
    // Numbers of no process of the container.
    await symlink(elsewhere, join(data, 'temp-70000.rdb'))
    await writeFile(join(data, 'temp-70001.rdb'), 'of a process that was killed')
    await dump()
    t.deepEqual(await readdir(data), ['appendonlydir'])
    t.is(await readFile(elsewhere, 'utf8'), '1')
    const failed = { run: () => Promise.reject(new Error('There is no room.')) }
    await t.throwsAsync(dump(failed), { message: 'There is no room.' })
    t.deepEqual(await readdir(data), ['appendonlydir'])
    await mkdir(join(data, 'temp-70002.rdb', 'deep'), { recursive: true })
    await dump()
    t.deepEqual((await readdir(data)).sort(), ['appendonlydir', 'temp-70002.rdb'], 'Redis makes no such folder')
    await t.throwsAsync(dump({ ...failed, data: '/dev/null' }), { message: 'There is no room.' })
  },
)

test.serial('redis: a dump waits for a script that ends, and is given up for one that does not', async t => {
  const database = await serving()
  const contents = redisContentsWithin(4)
  const dump = () => database.locally(local => contents.dump(local, database.job(database.dumpFolder())))
  const endless = (client: Redis) => client.call('EVAL', 'while redis.call("EXISTS", "never") == 0 do end', 0)
  await customer(database, async client => {
    const script = endless(client).catch((error: Error) => error.message)
    const late = () => new Error('It waits for the script.')
    await t.throwsAsync(withTimeout(dump(), 90_000, late), { instanceOf: DumpPrevented, message: /script/ })
    const waiting = dump()
    await database.locally(local => asPlatform(local, {}, redis => redis.call('SCRIPT', 'KILL')))
    t.regex(String(await script), /killed by user/)
    await t.notThrowsAsync(waiting)
  })
})

test.serial(
  'redis: a digest is the same whatever is read and remembered at once, and reads few large elements at once',
  async t => {
    const database = await serving()
    const text = (number: number) => String(number).padEnd(512 * 1024, 'x')
    await run(database, [
      ...numbers(20).flatMap((number): Command[] => [
        ['RPUSH', 'large list', text(number)],
        ['SADD', 'large set', text(number)],
        ['HSET', 'large hash', number, text(number)],
      ]),
      ...numbers(4).map((number): Command => ['XADD', 'large stream', `${number + 1}-1`, 'f', text(number)]),
      ['RPUSH', 'list of 2000', ...numbers(2000)],
      ['SADD', 'set', ...numbers(700)],
    ])
    let largest = 0
    const digest = (limits?: Partial<DigestLimits>) =>
      database.locally(local =>
        asPlatform(local, { seconds: 60 }, redis => {
          const { callBuffer } = redis
          redis.callBuffer = (async (...args: Parameters<typeof callBuffer>) => {
            const reply = await callBuffer.apply(redis, args)
            largest = Math.max(largest, bytesIn(reply))
            return reply
          }) as typeof callBuffer
          return redisDigestOf(redis, limits)
        }),
      )
    const usual = await digest()
    // A scan counts places of its table, each of which may have several elements.
    const few = 5 * MiB
    t.true(largest > few, 'the usual limits read several at once')
    largest = 0
    t.is(await digest({ maxElements: 100, pageBytes: MiB }), usual)
    t.true(largest <= few, `${largest} bytes in one reply`)
  },
)

test.serial('redis: what a digest would have to read as a whole is refused when it is large', async t => {
  const database = await serving()
  const digest = (limits: Partial<DigestLimits>) => () =>
    database.locally(local => asPlatform(local, { seconds: 60 }, redis => redisDigestOf(redis, limits)))
  const few = digest({ names: 4, maxElements: 4 })
  const group = (number: number): Command => ['XGROUP', 'CREATE', 'groups', `group${number}`, '0', 'MKSTREAM']
  const consumer = (number: number): Command => ['XGROUP', 'CREATECONSUMER', 'groups', 'group1', `consumer${number}`]
  const code = ['#!lua name=mine', ...numbers(5).map(each => `redis.register_function('f${each}', function() end)`)]
  const vector = (number: number): Command => ['VADD', 'vectors', 'VALUES', 2, 1, number, `element${number}`]
  const tooMany: [string, Command[], Command][] = [
    ['groups of a stream', numbers(5).map(group), ['XGROUP', 'DESTROY', 'groups', 'group4']],
    ['consumers of a group', numbers(5).map(consumer), ['DEL', 'groups']],
    ['functions', [['FUNCTION', 'LOAD', code.join('\n')]], ['FUNCTION', 'DELETE', 'mine']],
    ['elements of a vector set', numbers(5).map(vector), ['VREM', 'vectors', 'element4']],
  ]
  for (const [what, write, lessen] of tooMany) {
    await run(database, write)
    const message = `The database cannot be compared: it has more than 4 ${what}.`
    await t.throwsAsync(few(), { instanceOf: DumpPrevented, message }, what)
    await run(database, [lessen])
    await t.notThrowsAsync(few(), what)
  }
  await run(database, [
    ['SET', 'text', 'x'.repeat(8 * MiB)],
    ['RPUSH', 'list', 'x'.repeat(3 * MiB)],
  ])
  await t.throwsAsync(digest({ replyBytes: 2 * MiB }), { instanceOf: DumpPrevented, message: /more than 2 MB\.$/ })
  await t.notThrowsAsync(digest({ replyBytes: 4 * MiB }), 'a text comes in parts')
})

const bytesIn = (reply: unknown): number => {
  if (Array.isArray(reply)) return reply.reduce<number>((sum, each) => sum + bytesIn(each), 0)
  return Buffer.isBuffer(reply) ? reply.length : 0
}
