import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import type { Redis } from 'ioredis'
import { redisEngine } from '../../../../activities/databases/engines/redis/redis.ts'
import { EngineUnavailable, type LocalEngine } from '../../../../activities/databases/port.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { databaseEngineContract, type EngineUnderTest, within } from '../../../contracts/database-engine.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { type EngineContainer, engineContainer } from '../../../kit/databases/engine-container.ts'
import { redisClient, redisCustomer, redisOptions } from '../../../kit/databases/redis-customer.ts'

const redis: EngineUnderTest = {
  adapter: redisEngine,
  engine: 'redis',
  version: '8',
  memoryMb: 256,
  connect: redisCustomer,
  connectPlainly: (remote, password) => redisClient({ ...redisOptions(remote, password), tls: undefined }),
  connectAsPlatform: async (remote, password) =>
    redisClient({ ...redisOptions(remote, password), username: 'berth_platform' }),
  usersInSettings: true,
  platformByPassword: true,
}

const database = databaseEngineContract(test.serial, 'redis', () => redis)

async function customerOf(t: ExecutionContext, { remote, secrets }: EngineContainer): Promise<Redis> {
  const client = await redisClient(redisOptions(remote, secrets().password))
  t.teardown(() => client.disconnect())
  return client
}

const customer = async (t: ExecutionContext) => customerOf(t, await database())

/** The first word of the answer to a refused command. */
const refusalOf = (client: Redis, command: string): Promise<string> => {
  const [name, ...args] = command.split(' ') as [string, ...string[]]
  return client.call(name, ...args).then(
    () => 'allowed',
    error => error.message.split(' ')[0],
  )
}

/** Whether it refuses commands, because a script runs. */
const isBusy = (engine: LocalEngine): Promise<boolean> =>
  redisEngine.memory!(engine).then(
    () => false,
    error => /BUSY/.test(error.message),
  )

/** Commands that change the engine, its users or files, load code, connect elsewhere, or stop everyone. */
const escapes = [
  ...['CONFIG SET dir /tmp', 'CONFIG SET maxmemory 0', 'CONFIG SET dbfilename x', 'CONFIG SET requirepass x'],
  ...['CONFIG REWRITE', 'CONFIG RESETSTAT'],
  ...['ACL SETUSER default +@all', 'ACL SETUSER evil on nopass +@all', 'ACL DELUSER berth_platform', 'ACL LOAD'],
  ...['ACL SAVE', 'ACL LIST', 'ACL USERS', 'ACL GETUSER berth_platform', 'ACL LOG', 'ACL DRYRUN berth_platform PING'],
  ...['MODULE LIST', 'PFDEBUG x x'],
  ...['REPLICAOF 127.0.0.1 1', 'SLAVEOF 127.0.0.1 1', 'FAILOVER', 'SYNC', 'PSYNC ? -1', 'REPLCONF capa eof'],
  ...['MIGRATE 127.0.0.1 1 key 0 1', 'SHUTDOWN', 'SHUTDOWN NOSAVE', 'SAVE', 'BGSAVE', 'BGREWRITEAOF'],
  ...['CLIENT KILL USER berth_platform', 'CLIENT KILL ID 1', 'CLIENT PAUSE 60000', 'CLIENT UNPAUSE'],
  ...['CLIENT NO-EVICT on', 'CLIENT UNBLOCK 1', 'SCRIPT DEBUG SYNC', 'SLOWLOG RESET', 'LATENCY RESET'],
]

/** Commands that clients and their owners rely on. */
const everyday = [
  ...['SET key 1', 'GET key', 'INCR key', 'KEYS *', 'SCAN 0', 'TTL key', 'SELECT 1', 'SWAPDB 0 1', 'SWAPDB 0 1'],
  ...['LPUSH list 1', 'SORT list', 'XADD stream * field value', 'PUBLISH channel hello', 'OBJECT ENCODING key'],
  ...[
    'INFO',
    'CLIENT LIST',
    'CLIENT SETNAME me',
    'CLIENT INFO',
    'CONFIG GET maxmemory',
    'SLOWLOG GET',
    'MEMORY USAGE key',
  ],
  ...['EVAL return(1) 0', 'SCRIPT LOAD return(1)', 'FUNCTION LIST', 'ACL WHOAMI', 'COMMAND COUNT', 'LATENCY LATEST'],
  ...['DBSIZE', 'ROLE', 'LASTSAVE', 'WAIT 0 1', 'MULTI', 'EXEC', 'FLUSHDB', 'FLUSHALL'],
]

async function isConfined(t: ExecutionContext, client: Redis): Promise<void> {
  for (const command of escapes) t.is(await refusalOf(client, command), 'NOPERM', command)
  // Refused to everyone, before rights are looked at.
  for (const command of ['DEBUG SLEEP 0', 'DEBUG SEGFAULT', 'DEBUG RELOAD', 'MODULE LOAD /data/x.so'])
    t.regex(await refusalOf(client, command), /^(ERR|NOPERM)$/, command)
  const inScript = `return redis.call('CONFIG', 'SET', 'dir', '/tmp')`
  await t.throwsAsync(client.eval(inScript, 0), { message: /NOPERM|can't run this command|not allowed/ })
  for (const command of everyday) t.is(await refusalOf(client, command), 'allowed', command)
}

test.serial('redis: a customer can change its data only, and not the engine', async t => {
  const client = await customer(t)
  await isConfined(t, client)
  const settings = JSON.stringify(await client.call('CONFIG', 'GET', '*'))
  const { secrets } = await database()
  for (const secret of Object.values(secrets())) t.false(settings.includes(secret))
})

test.serial('redis: version 7 is served and confined by the same settings', async t => {
  const older = await engineContainer({ ...redis, version: '7' })
  t.teardown(older.clean)
  await older.prepare()
  const client = await customerOf(t, older)
  t.regex(await client.info('server'), /redis_version:7\./)
  await isConfined(t, client)
  const former = await older.rotate()
  t.is(await redisEngine.login(older.remote, former), 'refused')
  t.is(await redisEngine.login(older.remote, older.secrets().password), 'accepted')
  t.is(await older.locally(redisEngine.reloadCertificate), 'in effect')
  await older.stop()
  t.like(await older.state(), { running: false, exitCode: 0 })
})

test.serial('redis: the settings follow from the memory, and are in effect', async t => {
  const client = await customer(t)
  const expected = {
    ...{ maxmemory: `${166 * MiB}`, 'maxmemory-clients': `${38 * MiB}`, 'maxmemory-policy': 'noeviction' },
    ...{ maxclients: '220', appendonly: 'yes', appendfsync: 'always', save: '', port: '0', dir: '/data' },
  }
  for (const [name, value] of Object.entries(expected))
    t.deepEqual(await client.call('CONFIG', 'GET', name), [name, value], name)
  const { traits, secrets } = await database()
  const settings = redisEngine.settings({ ...traits, memoryMb: 32_768 }, secrets())['redis.conf']!
  for (const line of ['maxmemory 21299mb', 'maxmemory-clients 4915mb', 'maxclients 2020'])
    t.true(settings.includes(line), line)
  const late = redisEngine.settings({ ...traits, syncsLate: true }, secrets())['redis.conf']!
  t.true(late.includes('appendfsync everysec'))
})

const figure = async (client: Redis, name: string): Promise<number> =>
  Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(await client.info('persistence'))?.[1])

test.serial('redis: what was deleted becomes room on the disk, once what is left fits next to it', async t => {
  const { locally, folders, traits, secrets } = await database()
  const client = await customer(t)
  await client.flushall()
  const shrink = (freeBytes: number) => locally(engine => redisEngine.shrinkFiles!(engine, freeBytes))
  const rewrites = () => figure(client, 'aof_rewrites')
  const before = await rewrites()
  for (let number = 0; number < 32; number++) await client.set(`part ${number}`, Buffer.alloc(MiB, String(number)))
  await client.del(...Array.from({ length: 16 }, (_, number) => `part ${number}`))
  const logBytes = await figure(client, 'aof_current_size')
  t.true(logBytes > 32 * MiB)
  await shrink(16 * MiB)
  t.is(await rewrites(), before, 'it would fill the disk')
  await shrink(64 * MiB)
  await comesTrue(async () => (await figure(client, 'aof_rewrite_in_progress')) === 0)
  t.is(await rewrites(), before + 1)
  t.true((await figure(client, 'aof_current_size')) < logBytes / 2)
  await shrink(64 * MiB)
  t.is(await rewrites(), before + 1, 'there is nothing to gain')
  for (const [readOnly, percentage] of [
    [true, '0'],
    [false, '100'],
  ] as const) {
    await locally(engine => redisEngine.admitWrites({ ...engine, traits: { ...traits, readOnly } }))
    const name = 'auto-aof-rewrite-percentage'
    t.deepEqual(await client.call('CONFIG', 'GET', name), [name, percentage], 'Redis looks for no room')
    t.true(redisEngine.settings({ ...traits, readOnly }, secrets())['redis.conf']!.includes(`${name} ${percentage}\n`))
  }
  const left = ['temp-7.rdb', 'temp-rewriteaof-7.aof', 'temp-rewriteaof-bg-7.aof']
  for (const name of [...left, 'temp-other.aof']) writeFileSync(join(folders.data, name), 'x')
  await redisEngine.discardDrafts!(folders.data)
  t.deepEqual(readdirSync(folders.data).sort(), ['appendonlydir', 'temp-other.aof'])
  await client.flushall()
})

test.serial(
  'redis: one that was started to sync once a second syncs before it acknowledges, once it was adopted',
  async t => {
    const client = await customer(t)
    const { locally, traits } = await database()
    for (const [syncsLate, sync] of [
      [true, 'everysec'],
      [false, 'always'],
    ] as const) {
      await locally(engine => redisEngine.adopt!({ ...engine, traits: { ...traits, syncsLate } }))
      t.deepEqual(await client.call('CONFIG', 'GET', 'appendfsync'), ['appendfsync', sync])
    }
  },
)

test.serial('redis: where memory ends, writes are refused, and the platform still serves', async t => {
  const client = await customer(t)
  const filler = Buffer.alloc(MiB, 'x')
  const full = await t.throwsAsync(async () => {
    for (let number = 0; number < 400; number++) await client.set(`filler ${number}`, filler)
  })
  t.regex(String(full), /OOM/)
  const { locally, rotate, remote, secrets } = await database()
  await locally(redisEngine.ping)
  await rotate()
  t.is(await redisEngine.login(remote, secrets().password), 'accepted')
  await (await customer(t)).flushall()
})

test.serial('redis: clients that take all connections and never log in do not lock the platform out', async t => {
  const { locally, rotate, remote, secrets } = await database()
  const { host, port, authority, servername } = remote
  const idle: TLSSocket[] = []
  t.teardown(() => {
    for (const socket of idle) socket.destroy()
  })
  const open = () =>
    new Promise<boolean>(done => {
      const socket = connect({ host, port, ca: authority, servername }, () => done(true))
      idle.push(socket.on('error', () => done(false)).on('close', () => done(false)))
    })
  let held = 0
  for (let number = 0; number < 130; number++) held += Number(await open())
  t.true(held >= 100 && held <= 110, `${held}`)
  await t.throwsAsync(redisEngine.login(remote, secrets().password))
  await locally(redisEngine.ping)
  await rotate()
  for (const socket of idle) socket.destroy()
  const answer = () => redisEngine.login(remote, secrets().password).catch(() => 'none')
  await comesTrue(async () => (await answer()) === 'accepted')
})

test.serial('redis: no single value takes the memory that is left', async t => {
  const client = await customer(t)
  for (const grow of ['SETRANGE big 500000000 x', 'SETBIT big 4000000000 1'])
    t.is(await refusalOf(client, grow), 'ERR', grow)
  t.is(await client.strlen('big'), 0)
})

test.serial('redis: a script without end is ended by the next password', async t => {
  const { rotate, locally, remote, secrets } = await database()
  for (const endless of [
    (client: Redis) => client.eval('while true do end', 0),
    async (client: Redis) => {
      await client.call(
        'FUNCTION',
        'LOAD',
        "#!lua name=evil\nredis.register_function('spin', function() while true do end end)",
      )
      await client.call('FCALL', 'spin', '0')
    },
  ]) {
    const client = await customer(t)
    const ended = t.throwsAsync(endless(client))
    await comesTrue(() => locally(isBusy))
    await t.notThrowsAsync(locally(redisEngine.ping), 'its data are served: no start waits for the end of a script')
    const former = await rotate()
    await within(ended, 'the script runs still')
    t.is(await redisEngine.login(remote, former), 'refused')
    t.is(await redisEngine.login(remote, secrets().password), 'accepted')
  }
})

test.serial('redis: a script that wrote cannot be ended; a restart has the password that was written', async t => {
  const { rotate, kill, start, remote, secrets, locally } = await database()
  const client = await customer(t)
  await client.set('kept', 'yes')
  const ended = t.throwsAsync(client.eval(`redis.call('SET', 'lost', 'yes') while true do end`, 0))
  await comesTrue(() => locally(isBusy))
  const former = secrets().password
  await t.throwsAsync(rotate(), { instanceOf: EngineUnavailable, message: /UNKILLABLE/ })
  await kill()
  await within(ended, 'the script runs still')
  await start()
  t.is(await redisEngine.login(remote, former), 'refused')
  t.is(await (await customer(t)).get('kept'), 'yes')
})

test.serial(
  'redis: a script that takes all memory ends at most the engine, which starts again with its data',
  async t => {
    const { state, start } = await database()
    const client = await customer(t)
    await client.set('kept', 'again')
    const greedy = `local all = {} for i = 1, 1000 do all[i] = string.rep('x', 1048576) .. i end return #all`
    await t.throwsAsync(client.eval(greedy, 0))
    await comesTrue(async () => (await state())?.running === false)
    await start()
    t.is(await (await customer(t)).get('kept'), 'again')
  },
)
