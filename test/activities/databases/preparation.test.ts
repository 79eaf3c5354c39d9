import { existsSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import type { ContainerSpec, DiskLimits } from '../../../activities/containers/port.ts'
import { foldersOf } from '../../../activities/databases/container.ts'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import type { HostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { databaseVolume } from '../../../activities/databases/names.ts'
import type { DatabaseTraits } from '../../../activities/databases/port.ts'
import { type PreparationOptions, prepareVolume, servingPrivately } from '../../../activities/databases/preparation.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import { newId } from '../../../policy/ids.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { ownFolder } from '../../kit/folders.ts'

type Place = NonNullable<PreparationOptions['templates']>['place']

/** A host whose steps are noted in their order; `place` says what becomes of a copy. */
function scene(
  t: ExecutionContext,
  {
    place,
    disk,
    settle = async () => {},
  }: { place?: Place; settle?: () => Promise<void>; disk?: PreparationOptions['disk'] },
) {
  const steps: string[] = []
  const own = folderVolumes(ownFolder(t))
  const volumes = { ...own, flush: async () => void steps.push('flush') }
  const engine = Object.assign(new FakeContainerHost(), {
    runToEnd: async () => {
      steps.push('job')
      return { exitCode: 0, oom: false }
    },
  })
  const id = newId()
  const database = {
    ...{ id, ownerId: 'a', engine: 'postgres', version: '17', image: 'berth/postgres:17', imageId: null, ramMb: 1024 },
    ...{ cpus: 1, port: 20_000, uid: process.getuid!(), generation: 1 },
  } as DatabaseFacts
  const path = own.path(databaseVolume(database))
  const hosted = {
    adapterOf: () => ({ initialise: () => [['make']], command: () => ['serve'] }),
    traitsOf: () => ({}),
    hostnameOf: () => 'db-a.apps.localhost',
    foldersOf: () => foldersOf(path),
    settle: async () => {
      steps.push('settle')
      await settle()
    },
    untilServing: async () => {},
  } as unknown as HostedEngines
  const traits = { id: 'h1', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null } as const
  const templates = place && { place }
  const options: PreparationOptions = { engine, volumes, hosted, traits, diskMb: () => 16, templates, disk }
  const prepare = () => prepareVolume(options, database, new AbortController().signal)
  return { options, engine, steps, database, prepare, isMarked: () => existsSync(join(path, 'initialised')) }
}

test('a copy of a template takes the place of the job that makes a data folder', async t => {
  const placed: unknown[] = []
  const host = scene(t, {
    place: async ({ image }, { data, uid }) => {
      placed.push([image, existsSync(data), uid])
      return true
    },
  })
  await host.prepare()
  t.deepEqual(host.steps, ['settle', 'flush'])
  t.deepEqual(placed, [['berth/postgres:17', true, process.getuid!()]])
  t.true(host.isMarked())
  await host.prepare()
  t.is(placed.length, 1, 'what is complete stays')
})

for (const [what, place] of [
  ['without templates', undefined],
  ['whose template cannot be used', async () => false],
] as const)
  test(`on a host ${what} a job makes the data folder`, async t => {
    const host = scene(t, place ? { place } : {})
    await host.prepare()
    t.deepEqual(host.steps, ['settle', 'job', 'flush'])
  })

test('a failure is passed on once nothing writes to the volume any more', async t => {
  let isCopying = false
  const host = scene(t, {
    settle: async () => {
      throw new Error('no certificate')
    },
    place: async () => {
      isCopying = true
      await new Promise(done => setTimeout(done, 50))
      isCopying = false
      return true
    },
  })
  await t.throwsAsync(host.prepare(), { message: 'no certificate' })
  t.false(isCopying)
  t.false(host.isMarked())
})

test('the database has the image that it is pinned to', async t => {
  const images: string[] = []
  const host = scene(t, {
    place: async ({ image }) => {
      images.push(image)
      return true
    },
  })
  Object.assign(host.database, { imageId: 'sha256:abc' })
  await host.prepare()
  t.deepEqual(images, ['sha256:abc'])
})

test('an engine whose volume is only compared need not sync what it writes, and every other must', t => {
  const traits = {
    ...{ id: newId(), memoryMb: 1024, port: 20_000, uid: 10_000, hostname: 'db.example' },
    ...{ advertised: { host: 'db.example', port: 20_000 }, standIn: false, readOnly: false },
  }
  const linesOf = (engine: 'postgres' | 'mysql', version: string, isScratch: boolean | undefined) =>
    Object.values(
      engineOf(engine).settings({ ...traits, engine, version, isScratch } as DatabaseTraits, {
        ...{ password: '', platformPassword: '' },
      }),
    ).flatMap(text => text.split('\n'))
  for (const [engine, version, lines] of [
    ['postgres', '17', ["fsync = 'off'", "synchronous_commit = 'off'", "full_page_writes = 'off'"]],
    ['mysql', '9', ['innodb_flush_log_at_trx_commit = 0', 'innodb_doublewrite = OFF']],
  ] as const) {
    const usual = linesOf(engine, version, undefined)
    t.deepEqual(usual, linesOf(engine, version, false))
    t.deepEqual(
      linesOf(engine, version, true).filter(line => !usual.includes(line)),
      [...lines],
    )
  }
})

test('an engine that no client reaches has the limits of the disk that it has when it serves', async t => {
  const limits: DiskLimits = { mbps: 100, iops: 2000, own: '/dev/loop1', host: null }
  const { options, engine, database } = scene(t, {
    disk: async volume => (volume === databaseVolume(database) ? limits : null),
  })
  const specs: ContainerSpec[] = []
  const create = engine.create.bind(engine)
  engine.create = spec => {
    specs.push(spec)
    return create(spec)
  }
  t.is(await servingPrivately(options, database, new AbortController().signal, async () => 'done'), 'done')
  t.deepEqual(
    specs.map(({ disk }) => disk),
    [limits],
  )
})
