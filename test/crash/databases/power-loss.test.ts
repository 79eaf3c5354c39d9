import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import type { Redis } from 'ioredis'
import { labels } from '../../../activities/containers/port.ts'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import type { Customer } from '../../contracts/database-engine.ts'
import { openDisk } from '../../kit/crash/disk.ts'
import { customers } from '../../kit/databases/customers.ts'
import { redisClient, redisOptions } from '../../kit/databases/redis-customer.ts'
import { bareDocker, bareEngine, clearHost } from '../../kit/hosts/host-remains.ts'
import { type Entry, startEntry } from '../../kit/platform/entry.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

// Before anything is declared: the runner waits for nothing after the first hook. Rows are on another disk; that of Postgres has tests of its own.
const disk = await openDisk(6144)
const data = join(disk.folder, 'data')
await mkdir(data, { mode: 0o711 })
const offered = ['redis', 'postgres', 'mysql'] as const satisfies EngineName[]
const started = testPlatform({
  hosts: {},
  settings: { BERTH_DATA: data, DATABASE_ENGINES: offered.join(), DISK_MB_PER_256MB: '256' },
})
test.after.always('take the disk away', () => disk.remove())

const versions = { redis: '8', postgres: '17', mysql: '9' } as const
const memory = { redis: 512, postgres: 1024, mysql: 1024 } as const
/** Without a cache the images are created first, alongside the other tests. */
const imageSeconds = 1200
const timeoutMs = 1_500_000

let host: Entry

async function startHost(): Promise<void> {
  const platform = await started
  host = startEntry('host', platform.hostSettings('h'))
  await host.ready
  const isReady = async () => {
    const row = await platform
      .db('hosts')
      .where({ id: platform.hostId('h') })
      .first()
    const names = offered.map(engine => `berth/${engine}:${versions[engine]}`)
    return names.every(image => row?.database_images?.[image] === 'ready')
  }
  await platform.until(isReady, imageSeconds, 'the images')
}

/** The power goes at this moment: everything stands still while the disk is copied, and what ran has ended. Then the machine starts again. */
async function losePower(): Promise<void> {
  const platform = await started
  const engines = await bareEngine.list({ [labels.host]: platform.hostId('h') })
  const running = engines.filter(one => one.running)
  host.child.kill('SIGSTOP') // first: it would let what is paused go on
  await Promise.all(running.map(({ id }) => bareDocker.getContainer(id).pause()))
  const copy = await disk.cut()
  await host.kill('SIGKILL')
  for (const { id } of running) {
    const { State } = await bareDocker.getContainer(id).inspect()
    process.kill(State.Pid, 'SIGKILL') // dies when it is thawed, before it does anything
    await bareDocker.getContainer(id).unpause().catch(ignoreError('kernels of today end it while it is frozen'))
  }
  for (const { name } of engines) await bareEngine.remove(name)
  await disk.restart(copy)
  await startHost()
}

test.serial.before('a host on a disk that forgets', async t => {
  t.timeout(timeoutMs)
  const platform = await started
  platform.base.undo.push(async () => {
    await host.kill('SIGKILL')
    await clearHost(data, platform.hostId('h'))
  })
  await startHost()
})

interface Rented {
  engine: (typeof offered)[number]
  path: string
  remote: RemoteEngine
  password: string
}

async function scene() {
  const platform = await started
  const as = platform.api.as(await platform.api.makeUser())
  const send = async (path: string, body: object) => {
    const answer = await as.request('POST', path, { body: JSON.stringify(body) })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`)
    return answer.body.response
  }
  async function rent(engine: (typeof offered)[number]): Promise<Rented> {
    const asked = { name: 'kept', type: engine, version: versions[engine], memory: memory[engine] }
    // A machine that is busy may need more time than a caller is given.
    let last: unknown
    const made = () =>
      send('/v2/databases', asked).catch(error => {
        last = error
        return null
      })
    const { id, password, certificate } = await platform.until(made, 300, `a ${engine}`).catch(error => {
      throw new Error(`${error.message}: ${last}`)
    })
    const text = Buffer.from(certificate, 'base64').toString()
    const path = `/v2/databases/${id}`
    const remote = {
      ...{ host: '127.0.0.1', port: (await as.get(path)).body.response.port },
      authority: text.slice(text.lastIndexOf('-----BEGIN')),
      servername: databaseHostname(id, platform.base.config.databases.domain),
    }
    return { engine, path, remote, password }
  }
  const openOnce = async ({ engine, remote, password }: Rented) => customers[engine](remote, password)
  /** A customer, within the time in which the host brings an engine back. */
  const open = (rented: Rented) => platform.until(() => openOnce(rented).catch(() => null), 120, rented.engine)
  return { platform, as, send, rent, open, openOnce }
}

/** What the engine has been made to promise: Postgres and MySQL with each answer, Redis when it is asked to wait for its disk. */
async function writeDurably(
  { engine, remote, password }: Rented,
  customer: { write(n: number): Promise<void> },
  n: number,
) {
  await customer.write(n)
  if (engine !== 'redis') return
  const redis: Redis = await redisClient(redisOptions(remote, password))
  try {
    await redis.sadd('numbers', n + 1000) // it waits for what its own connection has written, and so for all before
    const [local] = (await redis.call('WAITAOF', 1, 0, 60_000)) as [number, number]
    if (local !== 1) throw new Error('It was not synced.')
  } finally {
    redis.disconnect()
  }
}

async function has(
  t: ExecutionContext,
  customer: { read(): Promise<number[]>; end(): void },
  numbers: number[],
  words: string,
) {
  const read = await customer.read()
  customer.end()
  t.deepEqual(
    numbers.filter(number => !read.includes(number)),
    [],
    words,
  )
}

test.serial(
  'a power loss takes neither a database that was just created, nor a write that was acknowledged',
  async t => {
    t.timeout(timeoutMs)
    const { as, rent, open } = await scene()
    const rented: Rented[] = []
    for (const engine of offered) rented.push(await rent(engine))
    // At once: what nobody synced for the answer is in memory only.
    await losePower()
    for (const one of rented) {
      const customer = await open(one)
      await has(t, customer, [], `${one.engine} opens with the password of its creation`)
    }
    const writers = await Promise.all(rented.map(open))
    for (let n = 1; n <= 20; n++) await Promise.all(rented.map((one, index) => writeDurably(one, writers[index]!, n)))
    await losePower()
    const numbers = Array.from({ length: 20 }, (_, n) => n + 1)
    for (const one of rented) await has(t, await open(one), numbers, `${one.engine} has what it acknowledged`)
    for (const one of rented) t.is((await as.request('DELETE', one.path)).status, 200)
  },
)

test.serial(
  'a power loss takes neither a password that was just given, nor a certificate that was just issued',
  async t => {
    t.timeout(timeoutMs)
    const { as, send, rent, open, openOnce } = await scene()
    const rented: Rented[] = []
    for (const engine of offered) rented.push(await rent(engine))
    const before = rented.map(({ password }) => password)
    await disk.settle()
    await Promise.all(
      rented.map(async one => {
        one.password = (await send(`${one.path}/credentials/reset`, { reset: 'password' })).password
      }),
    )
    await losePower()
    for (const [n, one] of rented.entries()) {
      const customer = await open(one)
      customer.end()
      await t.throwsAsync(
        openOnce({ ...one, password: before[n]! }),
        undefined,
        `${one.engine} refuses the former password`,
      )
    }
    await disk.settle()
    await Promise.all(rented.map(one => send(`${one.path}/credentials/reset`, { reset: 'certificate' })))
    const issued = await Promise.all(rented.map(async one => fingerprintOf(await open(one))))
    await losePower()
    for (const [n, one] of rented.entries())
      t.is(fingerprintOf(await open(one)), issued[n]!, `${one.engine} shows the certificate that was issued last`)
    for (const one of rented) t.is((await as.request('DELETE', one.path)).status, 200)
  },
)

function fingerprintOf(customer: Customer): string | undefined {
  customer.end()
  return customer.fingerprint
}
