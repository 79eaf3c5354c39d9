import test, { type ExecutionContext } from 'ava'
import pino from 'pino'
import { HostUnreachable, ImageUnavailable } from '../../../../activities/containers/port.ts'
import { findHost } from '../../../../db/hosts/hosts.ts'
import { listUsedRuntimes } from '../../../../db/hosts/used-runtimes.ts'
import { GiB } from '../../../../lib/bytes.ts'
import { imagesToWarm } from '../../../../policy/hosts/warm-images.ts'
import { type WarmImagesOptions, watchWarmImages } from '../../../../workers/host/images/warm-images.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()

/** A host that prepares images on an engine that answers for an image when the test says so. */
async function watched(t: ExecutionContext, hostId: string, own: Partial<WarmImagesOptions> = {}) {
  const { db } = await database
  await rows(db).host(hostId)
  /** Images that the engine has; a look at one that it does not have is counted. */
  const present = new Set<string>()
  let looks = 0
  const asked: {
    image: string
    answer(isReady: boolean): void
    fail(error: Error): void
    signal: AbortSignal | undefined
  }[] = []
  let [open, mostOpen] = [0, 0]
  const engine = {
    async imageId(image: string): Promise<string | null> {
      if (present.has(image)) return 'sha256:1'
      looks++
      return null
    },
    async prepareImage(image: string, signal?: AbortSignal): Promise<boolean> {
      mostOpen = Math.max(mostOpen, ++open)
      return new Promise<boolean>((answer, fail) => asked.push({ image, answer, fail, signal })).finally(() => open--)
    },
  }
  const ending = new AbortController()
  const options: WarmImagesOptions = {
    ...{ db, engine, hostId, languages: ['javascript', 'python'], log: pino({ level: 'silent' }) },
    freeBytes: async () => 100 * GiB,
    seconds: { first: 0.01, round: 0.05, again: 0.01 },
    retry: { firstSeconds: 0.05, maxSeconds: 0.2 },
    ...own,
  }
  const watch = watchWarmImages(options, ending.signal)
  const stop = async () => {
    ending.abort(new Error('the host ends'))
    await watch
  }
  t.teardown(stop)
  const next = async (image: string) => {
    await comesTrue(() => asked.length > 0)
    const first = asked.shift()!
    t.is(first.image, image)
    return first
  }
  const fact = async () => (await findHost(db, hostId))?.builds.images
  return { db, asked, next, stop, fact, present, looks: () => looks, mostOpen: () => mostOpen }
}

/** Applications of a host, by language and version. */
async function apps(hostId: string, counts: Record<string, number>) {
  const { db } = await database
  const make = rows(db)
  for (const [runtime, count] of Object.entries(counts)) {
    const user = await make.user('enterprise-32')
    for (let n = 0; n < count; n++) {
      const [language, version] = runtime.split(' ')
      const { app } = await make.app(user.id, { memoryMb: 256 })
      await db('apps').where({ id: app.id }).update({ host_id: hostId, language, runtime_version: version })
    }
  }
}

test.serial(
  'a host without applications prepares what others use; then the images of its own, most used first',
  async t => {
    const { db } = await database
    await rows(db).host('w1', { memoryMb: 100_000 })
    await apps('w1', { 'python 3.11': 1, 'go 1.24': 3, 'javascript 20': 2 })
    t.deepEqual(
      (await listUsedRuntimes(db, 'w1', 2)).map(({ language }) => language),
      ['go', 'javascript'],
    )
    t.deepEqual(await listUsedRuntimes(db, 'other', 1), [{ language: 'go', version: '1.24' }])
  },
)

test.serial(
  'images are prepared one at a time, those of applications first, and looked at again in every round',
  async t => {
    const { db } = await database
    await db('hosts').update({ draining: true })
    await rows(db).host('w2', { memoryMb: 100_000 })
    await apps('w2', { 'go 1.24': 2 })
    const { next, fact, mostOpen } = await watched(t, 'w2')
    for (const image of ['berth/go:1.24', 'berth/node:22', 'berth/python:3.11']) (await next(image)).answer(true)
    await comesTrue(async () => (await fact()) !== undefined)
    t.deepEqual(await fact(), { state: 'ready: berth/go:1.24, berth/node:22, berth/python:3.11', remedy: null })
    await next('berth/go:1.24')
    t.is(mostOpen(), 1)
  },
)

test.serial('of many used runtimes a host prepares 8', async t => {
  const { db } = await database
  await db('hosts').update({ draining: true })
  await rows(db).host('w0', { memoryMb: 100_000 })
  const offered = ['java 25', 'java 21', 'java 17', 'elixir 1.18', 'elixir 1.17', 'go 1.25', 'go 1.24', 'rust 1']
  const many = Object.fromEntries(offered.map(name => [name, 2]))
  await apps('w0', { ...many, 'python 3.11': 1 })
  const { asked, fact } = await watched(t, 'w0', { languages: [] })
  await comesTrue(async () => {
    asked.shift()?.answer(true)
    return (await fact()) !== undefined
  })
  const images = (await fact())!.state.replace('ready: ', '').split(', ')
  t.is(images.filter(image => !image.startsWith('maven')).length, 9, 'rust is built in another image than it runs in')
  t.false(images.includes('berth/python:3.11'))
})

test.serial('an image that cannot be had is reported, holds up no other, and is tried again ever later', async t => {
  const { asked, next, fact } = await watched(t, 'w3', { languages: ['python', 'javascript'] })
  await comesTrue(() => asked.length > 0)
  while (asked[0]!.image !== 'berth/python:3.11') {
    asked.shift()!.answer(true)
    await comesTrue(() => asked.length > 0)
  }
  ;(await next('berth/python:3.11')).fail(new ImageUnavailable('no registry\n has it'))
  ;(await next('berth/node:22')).answer(true)
  await comesTrue(async () => (await fact()) !== undefined)
  t.regex((await fact())!.state, /^ready: .*berth\/node:22; berth\/python:3.11 NOT AVAILABLE: no registry has it$/)
  t.regex((await fact())!.remedy!, /registry that has berth\/python:3.11; it tries again/)
  const retried = async () => {
    await comesTrue(() => {
      while (asked[0] && asked[0].image !== 'berth/python:3.11') asked.shift()!.answer(true)
      return asked.length > 0
    })
    return asked.shift()!
  }
  ;(await retried()).fail(new ImageUnavailable('no registry'))
  ;(await retried()).answer(true)
  await comesTrue(async () => {
    asked.shift()?.answer(true)
    return (await fact())!.remedy === null
  })
  t.true((await fact())!.state.includes('berth/python:3.11'))
})

test.serial('an image that cannot be had is tried again after 1, 2, 4 minutes and so on, up to an hour', async t => {
  let seconds = 0
  const { asked, next, looks, present } = await watched(t, 'w8', {
    languages: ['python'],
    seconds: { first: 0.1, round: 0.001, again: 0.001 },
    retry: { firstSeconds: 60, maxSeconds: 3600 },
    now: () => seconds * 1000,
  })
  const image = 'berth/python:3.11'
  for (const other of imagesToWarm(await listUsedRuntimes((await database).db, 'w8', 8), [])) present.add(other)
  present.delete(image)
  const rounds = async () => {
    const before = looks()
    await comesTrue(() => looks() > before + 2)
  }
  for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
    await comesTrue(() => asked.length > 0)
    ;(await next(image)).fail(new ImageUnavailable('no registry'))
    await rounds()
    seconds += minutes * 60 - 1
    await rounds()
    t.deepEqual(asked, [], `not before ${minutes} min`)
    seconds++
  }
  await comesTrue(() => asked.length > 0)
})

test.serial('a host that gave way to a requested image, or without its engine, begins again later', async t => {
  const { asked, fact } = await watched(t, 'w4', { languages: ['python'] })
  await comesTrue(() => asked.length > 0)
  const { image, answer } = asked.shift()!
  answer(false)
  await comesTrue(() => asked.length > 0)
  t.is(asked[0]!.image, image)
  asked.shift()!.fail(new HostUnreachable('The engine does not answer.'))
  await comesTrue(() => asked.length > 0)
  t.is(asked[0]!.image, image)
  t.is(await fact(), undefined, 'nothing is reported as unavailable')
})

test.serial('a disk with little space gets no image that nobody has requested', async t => {
  let free = 4 * GiB
  const { asked, fact } = await watched(t, 'w5', { freeBytes: async () => free })
  await comesTrue(async () => (await fact()) !== undefined)
  t.is((await fact())!.state, 'NOT PREPARED: 4 GB are free, and images need 5 GB')
  t.truthy((await fact())!.remedy)
  t.deepEqual(asked, [])
  free = 6 * GiB
  await comesTrue(() => asked.length > 0)
})

test.serial(
  'on a full disk images that are there are ready, and space is looked at after a delay that doubles',
  async t => {
    let minutes = 0
    let readings = 0
    const freeBytes = async () => {
      readings++
      return 4 * GiB
    }
    const own = {
      freeBytes,
      seconds: { first: 0.1, round: 0.001, again: 0.001 },
      retry: { firstSeconds: 60, maxSeconds: 3600 },
    }
    const { present, fact, looks, asked } = await watched(t, 'w9', { ...own, now: () => minutes * 60_000 })
    present.add('berth/node:22')
    await comesTrue(() => readings === 1)
    for (const delay of [1, 2, 4]) {
      const before = looks()
      await comesTrue(() => looks() > before + 20)
      t.is(readings, Math.log2(delay) + 1)
      minutes += delay
      await comesTrue(() => readings === Math.log2(delay) + 2)
    }
    t.is((await fact())!.state, 'NOT PREPARED: 4 GB are free, and images need 5 GB; ready: berth/node:22')
    t.deepEqual(asked, [])
    for (const image of imagesToWarm(await listUsedRuntimes((await database).db, 'w9', 8), ['javascript', 'python']))
      present.add(image)
    await comesTrue(async () => (await fact())!.remedy === null)
    t.is(readings, 4, 'nothing is missing, so space is no matter')
  },
)

test.serial('an engine that stays away is one line of the log', async t => {
  const lines: object[] = []
  const log = pino({ level: 'warn' }, { write: line => void lines.push(JSON.parse(line)) })
  const { asked } = await watched(t, 'w10', { log, languages: ['python'] })
  const fails = async () => {
    await comesTrue(() => asked.length > 0)
    asked.shift()!.fail(new HostUnreachable('The engine does not answer.'))
  }
  for (let n = 0; n < 5; n++) await fails()
  await comesTrue(() => asked.length > 0)
  t.is(lines.length, 1)
})

test.serial('with the setting none nothing is prepared, and a stop waits for no image', async t => {
  const off = await watched(t, 'w6', { languages: null })
  await comesTrue(async () => (await off.fact()) !== undefined)
  t.deepEqual(await off.fact(), { state: 'not prepared: WARM_IMAGES is none', remedy: null })
  const on = await watched(t, 'w7')
  await comesTrue(() => on.asked.length > 0)
  await on.stop()
  t.true(on.asked[0]!.signal!.aborted, 'what it had begun is given up')
  t.deepEqual(off.asked, [])
})
