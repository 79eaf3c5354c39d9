import { spawn } from 'node:child_process'
import { once } from 'node:events'
import test from 'ava'
import { createOptions } from '../../../../activities/containers/docker/options.ts'
import { labels } from '../../../../activities/containers/port.ts'
import { databaseContainer, databaseJob, foldersOf } from '../../../../activities/databases/container.ts'
import { engineOf } from '../../../../activities/databases/engines/select.ts'
import type { DatabaseTraits } from '../../../../activities/databases/port.ts'
import type { DatabaseFacts } from '../../../../db/operations/database-facts.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { cpuSharesFor } from '../../../../policy/apps/sizes.ts'
import { type EngineName, engineNames } from '../../../../policy/databases/engine.ts'
import { engines } from '../../../../policy/databases/engines.ts'
import { BandwidthStates } from '../../../../workers/host/bandwidth-keeper.ts'
import { databaseBounds } from '../../../../workers/host/databases/database-bounds.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

// What keeps a database at its limits from slowing others down: test/long/database-noise.test.ts measures what is left.
const database = testDatabase()

test('the output of a database engine is paced, and its outbound traffic is limited by its memory', async t => {
  const { db } = await database
  const limited: { id: string; mbit: number }[] = []
  const read: string[] = []
  const ending = new AbortController()
  const host = await watchedHost(db, { onContainers: (...seen) => bound(...seen) })
  const { engine, hostId, rounds, serving, put } = host
  engine.readOutput = async name => {
    read.push(name)
    await new Promise(done => ending.signal.addEventListener('abort', done))
  }
  const looks: string[] = []
  const inspect = engine.inspect.bind(engine)
  engine.inspect = name => {
    looks.push(name)
    return inspect(name)
  }
  const bandwidth = { limit: async ({ id, mbit }: { id: string; mbit: number }) => void limited.push({ id, mbit }) }
  const states = new BandwidthStates(db, hostId)
  const options = { states, engine, bandwidth: bandwidth as never, mbitPer256Mb: 50, log: host.options.log }
  const bound = databaseBounds({ ...options, limitConnections: null, adopt: async () => {} }, ending.signal)
  const one = await serving()
  put(one, { process: { pid: process.pid, memoryMb: 512 } })
  engine.put(
    host.stateOf({ id: 'f'.repeat(32), generation: 1 }, { id: 'app', name: 'app', labels: { [labels.role]: 'app' } }),
  )
  await rounds.round()
  await comesTrue(() => limited.length === 1)
  t.deepEqual(limited, [{ id: `c-${one.id}-1`, mbit: 100 }])
  t.deepEqual(read, [`berth-db-${one.id}-1`], 'programs of applications have readers of their own')
  rounds.see(one.id)
  await rounds.round()
  t.deepEqual([limited.length, read.length], [1, 1], 'once for each start')
  t.deepEqual(looks, read, 'by one inspection for all that is done at a start')
  ending.abort()
})

test('each run of an engine gets its limits of connections and is adopted, whatever has started it; what failed is tried again', async t => {
  const { db } = await database
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const host = await watchedHost(db, { onContainers: (...seen) => bound(...seen) })
  const { engine, hostId, rounds, serving, put } = host
  let clock = 0
  let fails = true
  const limited: string[] = []
  const adopted: string[] = []
  const bound = databaseBounds(
    {
      ...{ states: new BandwidthStates(db, hostId), engine, bandwidth: null, mbitPer256Mb: 50, log: host.options.log },
      now: () => clock,
      async limitConnections({ network, labels: of }) {
        limited.push(`${network} ${of[labels.database]}`)
        if (fails) throw new Error('no rules')
      },
      adopt: async id => void adopted.push(id),
    },
    ending.signal,
  )
  const one = await serving()
  const sleeper = spawn('sleep', ['600'], { stdio: 'ignore' })
  t.teardown(() => sleeper.kill('SIGKILL'))
  const run = (network: string, pid: number) =>
    put(one, {
      process: { pid, memoryMb: 512 },
      connection: { network, range: '10.192.0.2/24', gateway: '10.192.0.1' },
    })
  const look = async () => {
    clock += 5000
    rounds.see(one.id)
    await rounds.round()
  }
  run('first', sleeper.pid!)
  await look()
  await comesTrue(() => limited.length === 1 && adopted.length === 1)
  fails = false
  await look()
  await comesTrue(() => limited.length === 2)
  await look()
  t.deepEqual(limited, [`first ${one.id}`, `first ${one.id}`])
  sleeper.kill('SIGKILL')
  await once(sleeper, 'exit')
  run('second', process.pid)
  await look()
  await comesTrue(() => limited.length === 3 && adopted.length === 2)
  t.is(limited[2], `second ${one.id}`)
  t.deepEqual(adopted, [one.id, one.id])
})

const facts = (engine: EngineName): DatabaseFacts =>
  ({
    ...{ id: 'a'.repeat(32), ownerId: '1', generation: 1, port: 20_000, engine, version: engines[engine].versions[0]! },
    ...{ ramMb: 1024, cpus: 1, uid: 20_000, image: 'image' },
  }) as DatabaseFacts

const host = { id: 'h', runtime: 'runc' as const, configNames: [], buildProxy: null, caBundle: null }
const where = { hostname: 'db', address: '127.0.0.1', host }

for (const name of engineNames)
  test(`${name}: every container of a database has all limits, and takes its part of its owner's share`, t => {
    const folders = foldersOf('/volume')
    const pidsLimit = name === 'redis' ? 660 : 352 // 128 more than it has connections
    const disk = { mbps: 100, iops: 2000, own: '/dev/loop1', host: '/dev/sda' }
    for (const spec of [
      databaseContainer(facts(name), folders, ['serve'], where),
      databaseJob(facts(name), folders, [], host),
    ]) {
      const { HostConfig } = createOptions({ ...spec, disk }, { driver: 'cgroupfs' })
      t.like(HostConfig, {
        ...{
          Memory: 1024 * MiB,
          MemorySwap: 1024 * MiB,
          NanoCpus: 1e9,
          CpuShares: cpuSharesFor(1024),
          PidsLimit: pidsLimit,
        },
        ...{ CgroupParent: '/berth/1', OomScoreAdj: 500, ReadonlyRootfs: true },
      })
      t.deepEqual(HostConfig?.BlkioDeviceWriteIOps, [{ Path: '/dev/loop1', Rate: 2000 }])
      t.is(HostConfig?.BlkioDeviceReadBps?.length, 2)
    }
  })

const bounds: Record<EngineName, RegExp> = {
  mongo: /maxIncomingConnections: (\d+)/,
  mysql: /max_connections = (\d+)/,
  postgres: /max_connections = '(\d+)'/,
  redis: /maxclients (\d+)/,
}

for (const name of engineNames)
  test(`${name}: connections are as many as its memory bears, and the platform has some of its own`, t => {
    const traits = {
      ...{ id: 'a'.repeat(32), engine: name, version: engines[name].versions[0]!, memoryMb: 1024, port: 20_000 },
      ...{ uid: 20_000, hostname: 'db', advertised: { host: 'db', port: 20_000 }, standIn: false, readOnly: false },
    } as DatabaseTraits
    const files = engineOf(name).settings(traits, { password: 'p', platformPassword: 'q' })
    const found = bounds[name].exec(Object.values(files).join('\n'))
    const own = name === 'redis' ? 256 : 102
    t.is(databaseContainer(facts(name), foldersOf('/volume'), [], where).labels['berth.clients'], String(own))
    // As many from elsewhere, 10 of the machine at the port and 10 at the socket.
    t.is(Number(found?.[1]), own + own + 20)
  })
