import test, { type ExecutionContext } from 'ava'
import pino from 'pino'
import { HostUnreachable, ImageUnavailable } from '../../../../activities/containers/port.ts'
import { readDatabaseImages, recordDatabaseImages } from '../../../../db/hosts/database-images.ts'
import { parseConfig } from '../../../../policy/config.ts'
import { type DatabaseImagesOptions, watchDatabaseImages } from '../../../../workers/host/images/database-images.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()

/** An engine that answers for an image when the test says so. */
function fakeEngine() {
  const asked: { image: string; done(): void; fail(error: Error): void }[] = []
  let open = 0
  return {
    asked,
    names: () => asked.map(({ image }) => image),
    mostOpen: 0,
    async ensureImage(image: string): Promise<void> {
      this.mostOpen = Math.max(this.mostOpen, ++open)
      await new Promise<void>((done, fail) => asked.push({ image, done, fail })).finally(() => open--)
    },
  }
}

async function watched(
  t: ExecutionContext,
  hostId: string,
  settings: Record<string, string>,
  templates?: DatabaseImagesOptions['templates'],
) {
  const { db } = await database
  const { databases } = parseConfig(settings, '/')
  const engine = fakeEngine()
  const ending = new AbortController()
  const log = pino({ level: 'silent' })
  const options = { db, engine, hostId, databases, log, templates, everySeconds: 0.05 }
  const watch = watchDatabaseImages(options, ending.signal)
  const stop = async () => {
    ending.abort()
    await watch
  }
  t.teardown(stop)
  return { engine, stop, recorded: () => readDatabaseImages(db, hostId) }
}

async function host(id: string) {
  const { db } = await database
  await rows(db).host(id)
  return db
}

test('images are prepared one at a time, and each is recorded as soon as it is ready', async t => {
  await host('one')
  const { engine, recorded } = await watched(t, 'one', { DATABASE_ENGINES: 'redis,postgres' })
  await comesTrue(() => engine.asked.length === 1)
  const others = ['berth/mongo-stand-in:8', 'berth/mongo:8', 'berth/mysql:9']
  t.deepEqual(Object.keys(await recorded()).sort(), others, 'those of other types')
  t.regex((await recorded())['berth/mysql:9']!, /^This host offers redis, postgres \(setting DATABASE_ENGINES\)\.$/)
  engine.asked[0]!.done()
  await comesTrue(async () => (await recorded())['berth/redis:8'] === 'ready')
  for (const n of [1, 2]) {
    await comesTrue(() => engine.asked.length === n + 1)
    engine.asked[n]!.done()
  }
  await comesTrue(async () => (await recorded())['berth/postgres:17'] === 'ready')
  t.deepEqual(engine.names(), ['berth/redis:8', 'berth/redis:7', 'berth/postgres:17'])
  t.is(engine.mostOpen, 1)
})

test('an image that cannot be had is recorded with what to do, and tried again', async t => {
  await host('none')
  const { engine, recorded } = await watched(t, 'none', { DATABASE_ENGINES: 'mongo,postgres' })
  await comesTrue(() => engine.asked.length === 1)
  t.regex((await recorded())['berth/mongo-stand-in:8']!, /^This host does not offer .* \(setting MONGO_STAND_IN\)\.$/)
  engine.asked[0]!.fail(new ImageUnavailable('The image berth/mongo:8 is missing:\n  no registry.'))
  await comesTrue(() => engine.asked.length === 2)
  engine.asked[1]!.fail(new Error('no space left on device'))
  await comesTrue(() => engine.asked.length === 3)
  const { 'berth/mongo:8': mongo, 'berth/postgres:17': postgres } = await recorded()
  t.is(
    mongo,
    'The image berth/mongo:8 is missing: no registry.\nGive the host a registry that has mongo:8, or load that image and tag it as berth/mongo:8. To try Berth, set MONGO_STAND_IN=on.',
  )
  t.regex(
    postgres!,
    /^no space left on device\nGive the host a registry that has postgres:17, .* tries again every 10 minutes\.$/,
  )
  engine.asked[2]!.done()
  await comesTrue(async () => (await recorded())['berth/mongo:8'] === 'ready')
  await comesTrue(() => engine.asked.length === 4)
  t.is(engine.asked[3]!.image, 'berth/postgres:17', 'and what is ready is not looked at again')
})

test('the stand-in is prepared after the real one if an operator enabled it', async t => {
  await host('stand-in')
  const settings = { DATABASE_ENGINES: 'mongo', MONGO_STAND_IN: 'on' }
  const { engine, recorded } = await watched(t, 'stand-in', settings)
  await comesTrue(() => engine.asked.length === 1)
  t.is(engine.asked[0]!.image, 'berth/mongo:8')
  engine.asked[0]!.fail(new ImageUnavailable('No registry.'))
  await comesTrue(() => engine.asked.length === 2)
  engine.asked[1]!.done()
  await comesTrue(async () => (await recorded())['berth/mongo-stand-in:8'] === 'ready')
  t.regex((await recorded())['berth/mongo:8']!, /Until then berth\/mongo-stand-in:8 takes its place\.$/)
})

test('after a start nothing is ready until it was seen; what was ready is looked at first', async t => {
  const db = await host('again')
  await recordDatabaseImages(db, 'again', {
    'berth/redis:7': 'ready',
    'berth/mysql:9': 'ready',
    'berth/gone:1': 'ready',
  })
  const { engine, recorded } = await watched(t, 'again', { DATABASE_ENGINES: 'mysql,redis' })
  await comesTrue(() => engine.asked.length === 1)
  t.false(Object.values(await recorded()).includes('ready'))
  for (const n of [0, 1]) {
    await comesTrue(() => engine.asked.length === n + 1)
    engine.asked[n]!.done()
  }
  await comesTrue(() => engine.asked.length === 3)
  t.deepEqual(engine.names(), ['berth/mysql:9', 'berth/redis:7', 'berth/redis:8'])
  t.like(await recorded(), { 'berth/mysql:9': 'ready', 'berth/redis:7': 'ready' })
})

test('while the engine is away nothing is recorded as unavailable; a stop does not wait for an image', async t => {
  await host('away')
  const { engine, recorded, stop } = await watched(t, 'away', { DATABASE_ENGINES: 'mysql,postgres' })
  await comesTrue(() => engine.asked.length === 1)
  engine.asked[0]!.fail(new HostUnreachable('The engine does not answer.'))
  await comesTrue(() => engine.asked.length === 2)
  t.is(engine.asked[1]!.image, 'berth/mysql:9')
  t.false('berth/mysql:9' in (await recorded()))
  await stop()
  t.false('berth/mysql:9' in (await recorded()))
})

test('a host without databases asks for no image', async t => {
  await host('nothing')
  const { engine, recorded } = await watched(t, 'nothing', { DATABASE_ENGINES: 'none' })
  await comesTrue(async () => 'berth/redis:8' in (await recorded()))
  t.regex((await recorded())['berth/redis:8']!, /offers no databases/)
  t.deepEqual(engine.asked, [])
})

test('the data folder of an image is prepared once, as soon as the image is ready; its failure holds up nothing', async t => {
  await host('templates')
  const prepared: string[] = []
  let sweeps = 0
  const { engine, recorded } = await watched(
    t,
    'templates',
    { DATABASE_ENGINES: 'mysql,postgres' },
    {
      async prepare({ engine: name, version, image }) {
        t.is((await recorded())[image], 'ready', 'nobody waits for it')
        prepared.push(`${name} ${version}`)
        if (name === 'mysql') throw new Error('no space left')
      },
      sweep: async () => void sweeps++,
    },
  )
  for (const n of [0, 1]) {
    await comesTrue(() => engine.asked.length === n + 1)
    t.is(prepared.length, n, 'one after the other')
    engine.asked[n]!.done()
  }
  await comesTrue(() => sweeps > 2)
  t.deepEqual(prepared.sort(), ['mysql 9', 'postgres 17'])
})
