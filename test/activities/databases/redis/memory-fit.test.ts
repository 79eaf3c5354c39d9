import { asyncLocalStorage, type Context } from '@temporalio/activity'
import test from 'ava'
import { asPlatform, redisEngine } from '../../../../activities/databases/engines/redis/redis.ts'
import type { LocalEngine } from '../../../../activities/databases/port.ts'
import { databaseMemoryFit, type MemoryFitOptions } from '../../../../activities/databases/resize/memory-fit.ts'
import type { DatabaseStep } from '../../../../activities/databases/steps.ts'
import type { DatabaseFacts } from '../../../../db/operations/database-facts.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { engineContainer } from '../../../kit/databases/engine-container.ts'
import { realDocker } from '../../../kit/servers/docker.ts'

const container = engineContainer({ adapter: redisEngine, engine: 'redis', version: '8', memoryMb: 512 })
test.after.always(async () => (await container).clean())

let privateStarts = 0

/** The step for a database of 512 MB that is to have `ramMb`; `back`: it gets its former memory. */
async function ask(ramMb: number, back = false): Promise<void> {
  const { traits, folders, spec, locally, untilServing } = await container
  const database = {
    ...{ id: traits.id, ownerId: 'a'.repeat(24), generation: 1, port: traits.port, engine: 'redis', version: '8' },
    ...{ ramMb: back ? 512 : ramMb, cpus: 1, uid: traits.uid, image: spec.image },
  } as DatabaseFacts
  const step = { operationId: 'o', databaseId: traits.id, ramMbBefore: 512, database: () => database } as DatabaseStep
  const hosted = {
    adapterOf: () => redisEngine,
    traitsOf: () => traits,
    foldersOf: () => folders,
    hostnameOf: () => traits.hostname,
    settle: async () => void privateStarts++,
    untilServing: (_: DatabaseFacts, __: AbortSignal, name?: string) => untilServing(name),
    locally: <T>({ ramMb: memoryMb }: DatabaseFacts, work: (local: LocalEngine) => Promise<T>) =>
      locally(local => work({ ...local, traits: { ...local.traits, memoryMb } })),
  }
  const options = {
    ...{ engine: realDocker().host, hosted, diskMb: () => 1, volumes: { ensure: async () => {} } },
    traits: { id: realDocker().run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
    guard: {
      turn: async (_: string, __: unknown, work: (step: DatabaseStep) => Promise<unknown>) => work(step),
      assertCurrent: async () => {},
    },
  } as unknown as MemoryFitOptions
  const input = { databaseId: '', operationId: '', ownerId: '', back }
  const context = { cancellationSignal: AbortSignal.timeout(120_000) } as unknown as Context
  await asyncLocalStorage.run(context, () => databaseMemoryFit(options).fitDatabaseMemory(input))
}

/** Makes a value of so many MB. */
async function write(key: string, megabytes: number): Promise<unknown> {
  const { locally } = await container
  return locally(local => asPlatform(local, {}, redis => redis.call('SETRANGE', key, megabytes * MiB - 1, 'x')))
}

const read = async (key: string) =>
  (await container).locally(local => asPlatform(local, {}, redis => redis.call('STRLEN', key)))

const maxMb = async () => {
  const answer = await (await container).locally(local =>
    asPlatform(local, {}, redis => redis.call('CONFIG', 'GET', 'maxmemory')),
  )
  return Number((answer as string[])[1]) / MiB
}

const tooMuch = (ramMb: number, limitMb: number) => ({
  message: new RegExp(
    `^The data of the database take 2[0-3]\\d MB, and with ${ramMb} MB of memory they may take ${limitMb} MB\\.`,
  ),
})

test.serial('200 MB of data are refused a memory that they do not fit into, and nothing has changed', async t => {
  const { prepare, state, locally } = await container
  await prepare()
  for (const key of ['a', 'b']) await write(key, 100)
  const used = await locally(redisEngine.memory!)
  t.true(used.usedBytes > 200 * MiB && used.usedBytes < 240 * MiB, `${used.usedBytes}`)
  t.is(used.limitBytes, 332 * MiB)
  const before = await state()
  const refused = await t.throwsAsync(ask(256), tooMuch(256, 166))
  t.is((refused as unknown as { type: string }).type, 'INVALID_MEMORY')
  await ask(256, true)
  t.is(await maxMb(), 332)
  t.deepEqual((await state())?.startedAt, before?.startedAt, 'the same run')
  await write('c', 30)
})

test.serial('a memory into which the data fit is accepted, and from then on no client can add more', async t => {
  const { locally } = await container
  await locally(local => asPlatform(local, {}, redis => redis.call('DEL', 'c')))
  await ask(400)
  t.is(await maxMb(), 260)
  await write('c', 30)
  await write('d', 30)
  // Redis compares before it writes, and now it is over its limit.
  await t.throwsAsync(write('e', 30), { message: /OOM/ })
  await t.throwsAsync(ask(400), { message: /take 2[6-9]\d MB/ }, 'decided by what it has now')
  await ask(400, true)
  await write('e', 10)
  for (const [key, megabytes] of [
    ['a', 100],
    ['d', 30],
    ['e', 10],
  ] as const)
    t.is(await read(key), megabytes * MiB)
})

test.serial('a stopped one is queried where no client reaches it, and stays stopped', async t => {
  const { locally, stop, state, start, spec } = await container
  await locally(local => asPlatform(local, {}, redis => redis.call('DEL', 'a', 'c', 'd', 'e')))
  await stop()
  await t.throwsAsync(ask(128), { message: /take 1[0-3]\d MB, and with 128 MB of memory they may take 83 MB/ })
  t.is(privateStarts, 1)
  await ask(128, true)
  t.is(privateStarts, 1, 'to go back needs none')
  await ask(256)
  t.false((await state())?.running)
  t.is(await realDocker().host.inspect(`${spec.name}-job`), null)
  await start()
  t.is(await read('b'), 100 * MiB)
})
