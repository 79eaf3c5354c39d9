import { execFileSync } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { ImageUnavailable, labels } from '../../activities/containers/port.ts'
import { appContainerName } from '../../activities/containers/spec.ts'
import type { AppHostOptions } from '../../activities/hosts/app-host-options.ts'
import { placement } from '../../activities/placement/process.ts'
import { placingSlots } from '../../activities/placement/slots.ts'
import { recordActivities } from '../../activities/records.ts'
import { decide, decideServing } from '../../activities/releases/decision.ts'
import { ensureDiskFor, newDiskLine } from '../../activities/releases/disk.ts'
import { type ReleaseFolders, readPrepared, releaseFolders, writePrepared } from '../../activities/releases/files.ts'
import type { LaneOperation, Release } from '../../activities/releases/release.ts'
import { appLocks } from '../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../activities/volumes/folder.ts'
import { loadApp, recordStarted } from '../../db/apps/apps.ts'
import { openDeployment, readLog } from '../../db/deploys/deployments.ts'
import { allocateSegment } from '../../db/objects/segments.ts'
import { claimNextOperationFor } from '../../db/operations/operation-claims.ts'
import { enqueueOperation, finishOperation, type OperationKind } from '../../db/operations/operations.ts'
import { defaultPlans } from '../../policy/accounts/plans.ts'
import { claimLost } from '../../policy/apps/claims.ts'
import { ownAddress, ownPort } from '../../policy/apps/published-address.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { asActivity } from '../kit/hosts/activity-context.ts'
import { hostSteps } from '../kit/hosts/host-steps.ts'
import { demandRoot } from '../kit/root.ts'
import { configFile, rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const folder = mkdtempSync(join(tmpdir(), 'berth-host-steps-'))
test.after.always('remove the folder', () => rmSync(folder, { recursive: true, force: true }))
test.before('a host that answers however long this takes', async () => {
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
})

/** An application whose release 1 serves, and an operation of this kind that run `lane` holds; a deploy brings release 2. */
async function scene(kind: OperationKind, hostId = 'h1', own: Partial<AppHostOptions> = {}) {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  const { app, operationId } = await make.app(user.id, { start: 'node index.js' })
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ release: 1 })
  const { id } = await enqueueOperation(db, { targetId: app.id, kind, ownerId: user.id, actor: user.id })
  const deployment = { appId: app.id, operationId: id, release: 2, revision: '', segmentId: null }
  if (kind === 'deploy') await openDeployment(db, { ...deployment, source: 'upload' })
  await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step: 1 }, [])
  const options = { appsDomain: 'x.test', diskMbPer256Mb: 10 }
  const { release } = (await decide(db, options, id))!
  const before = (await decideServing(db, options, id))!.release
  const host = hostSteps(db, hostId, folder, own)
  const step = <T>(work: (activities: typeof host.activities) => Promise<T>, signal?: AbortSignal) =>
    asActivity({ run: 'lane', step: 5 }, () => work(host.activities), signal)
  return { db, ...host, app, user, id, release, before, step }
}

/** `scene` in which the application's lock is held until `over`; `waits` resolves once a step waits for the lock. */
async function busyScene(kind: OperationKind) {
  const inner = appLocks()
  let asked = 0
  const locks = Object.assign(
    <T>(appId: string, work: () => Promise<T>) => {
      asked++
      return inner(appId, work)
    },
    { busy: inner.busy },
  )
  const made = await scene(kind, 'h1', { locks })
  let over = () => {}
  const hold = () =>
    new Promise<void>(held => {
      void inner(made.app.id, () => {
        held()
        return new Promise<void>(end => (over = end))
      })
    })
  return { ...made, hold, over: () => over(), waits: (before = 0) => comesTrue(() => asked > before) }
}

const refused = (message: RegExp) => ({ instanceOf: ApplicationFailure, message })
const forged = { uid: 0, ownerId: '0', start: 'env', ramMb: 9999, cpus: 64, language: 'php', main: '/etc/passwd' }

test('a container is created from the rows of its application, whatever its lane sends', async t => {
  const { engine, step, release, app, user } = await scene('deploy')
  const said = { ...release, ...forged, hostname: null, hostAddress: '127.0.0.9', deploymentId: 'x' } as Release
  const started = await step(({ startRelease }) => startRelease(said))
  const { spec } = engine.containers.get(appContainerName(release))!
  t.like(spec, { user: `${app.uid}:${app.uid}`, command: ['sh', '-c', 'node index.js'], memoryMb: 512, cpus: 1 })
  const hostAddress = ownAddress('127.0.0.1', app.uid)
  const hostPort = ownPort({ ...release, hostAddress })!
  t.deepEqual(spec.publish, { port: spec.publish!.port, address: hostAddress, hostPort })
  t.true(spec.network.endsWith(user.id))
  t.true(started.answered)
  t.is(await step(({ passHealthGate }) => passHealthGate(said, started)), null)
  t.is(started.hostPort, hostPort)
})

test.serial(
  'nothing with a port is made before no route leads to ports of an earlier boot; what has none does not wait',
  async t => {
    const gate = new EventEmitter()
    const [asked, opened] = [once(gate, 'asked'), once(gate, 'opened')]
    const routed = async () => {
      gate.emit('asked')
      await opened
    }
    const { db, step, release, calls } = await scene('deploy', 'h1', { routed })
    const made = () => calls.filter(call => ['engine.create', 'engine.start'].includes(call))
    const starting = step(({ startRelease }) => startRelease(release))
    t.is(await Promise.race([asked.then(() => 'it waits'), starting.then(() => 'it was started')]), 'it waits')
    t.deepEqual(made(), [])
    gate.emit('opened')
    t.truthy((await starting).hostPort)
    t.deepEqual(made(), ['engine.create', 'engine.start'])

    const never = await scene('deploy', 'h1', { routed: () => Promise.reject(new Error('it has no port')) })
    await db('apps').where({ id: never.app.id }).update({ subdomain: null })
    t.is((await never.step(({ startRelease }) => startRelease(never.release))).hostPort, null)
  },
)

test('where a program of the machine listens at the port of a release, the engine chooses another one', async t => {
  const { engine, step, release } = await scene('deploy')
  const { hostAddress } = release
  const hostPort = ownPort(release)!
  const program = createServer().listen(hostPort, hostAddress)
  t.teardown(() => program.close())
  await once(program, 'listening')
  const start = () => step(({ startRelease }) => startRelease(release))
  const started = await start()
  t.like(started, { hostAddress, answered: true })
  t.not(started.hostPort, hostPort)
  t.deepEqual(await start(), started, 'a repeated step finds it')
  t.is(engine.containers.size, 1)
})

/** A scene whose application restarts where it is published, as its row says. */
async function restartScene() {
  const made = await scene('restart')
  const { db, app, before, step } = made
  const restart = () => step(({ stopApp }) => stopApp(before, { mustRun: false, thenStart: true }))
  const { hostPort: host_port, hostAddress: host_address, bootId: boot_id } = (await restart()).started!
  await db('apps').where({ id: app.id }).update({ status: 'restarting', host_port, host_address, boot_id })
  return { ...made, restart, state: async () => (await db('operations').where({ id: made.id }).first()).state }
}

test('a later attempt at a restart finds what an overlapping one has recorded, and stops nothing', async t => {
  const { engine, before, restart, state } = await restartScene()
  let [reached, goOn] = [() => {}, () => {}]
  const isReached = new Promise<void>(done => (reached = done))
  const mayGoOn = new Promise<void>(done => (goOn = done))
  const start = engine.start.bind(engine)
  engine.start = async name => {
    reached()
    await mayGoOn
    return start(name)
  }
  const first = restart()
  await isReached
  const second = t.throwsAsync(restart(), { instanceOf: ApplicationFailure, message: /no longer works/ })
  goOn()
  t.true((await first).recorded)
  await second
  t.is(await state(), 'success')
  t.true((await engine.inspect(appContainerName(before)))!.running)
})

test('a restart whose outcome cannot be recorded is left to its lane, and not done again', async t => {
  const { db, id, engine, before, restart, state } = await restartScene()
  await db.raw(`create function refuse_success() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`)
  await db.raw(`create trigger refuse_success before update on operations for each row
    when (new.id = '${id}' and new.state = 'success') execute function refuse_success()`)
  const { started, recorded } = await restart()
  t.truthy(started)
  t.is(recorded, undefined)
  t.is(await state(), 'running')
  t.true((await engine.inspect(appContainerName(before)))!.running)
})

test.serial(
  'the port of a new container is no other application’s from its start on, before anything of it is on record',
  async t => {
    const hosts = (await database).db('hosts')
    await hosts.clone().update({ address: '127.0.0.2' }) // one that all of its applications share
    t.teardown(() => hosts.clone().update({ address: '127.0.0.1' }))
    const { db, step, release } = await scene('deploy')
    const { hostPort, hostAddress } = await step(({ startRelease }) => startRelease(release))
    const { app: before } = await scene('deploy')
    const claim = { release: 1, containerId: 'c1', hostPort, hostAddress, startedAt: new Date(), bootId: 'boot' }
    await recordStarted(db, before.id, claim)
    t.like(await loadApp(db, before.id), { host_port: hostPort })
    // Repeated, as after a lost answer: the engine knows whose port it is.
    await step(({ startRelease }) => startRelease(release))
    t.like(await loadApp(db, before.id), { status: 'running', host_port: null })
  },
)

test.serial(
  'a program that its engine took down with it has not failed: it is started again, and asked again',
  async t => {
    const boot = { id: 'boot', settle: async () => 'boot' }
    const { step, release, engine } = await scene('deploy', 'h1', { boot })
    const start = () => step(({ startRelease }) => startRelease(release))
    const started = await start()
    t.is(started.bootId, 'boot')
    await engine.stop(appContainerName(release), 0)
    const inspect = engine.inspect.bind(engine)
    engine.inspect = name => {
      boot.settle = async () => 'boot/2' // after the step has read the boot
      return inspect(name)
    }
    const restarted = { gone: true, exit: null, reason: 'The container engine was restarted and ended the program.' }
    const gate = (of: { bootId: string }) => step(({ passHealthGate }) => passHealthGate(release, of))
    t.deepEqual(await gate(started), restarted)
    t.deepEqual(await gate(started), restarted, 'its port may be another one’s')
    t.false((await inspect(appContainerName(release)))?.running)
    const again = await start()
    t.is(again.bootId, 'boot/2')
    t.is(await gate(again), null)
    t.true((await inspect(appContainerName(release)))?.running)
  },
)

test.serial('an answer counts for a start only when its engine is still in the boot of the start', async t => {
  const boot = { id: 'boot', settle: async () => 'boot' }
  const { step, release, engine } = await scene('deploy', 'h1', { boot })
  const start = engine.start.bind(engine)
  engine.start = async name => {
    const state = await start(name)
    boot.settle = async () => 'boot/2'
    return state
  }
  const started = await step(({ startRelease }) => startRelease(release))
  t.like(started, { bootId: 'boot', answered: undefined })
})

test.serial(
  'files under the number of a release count only for the deployment that they were prepared for',
  async t => {
    const { step, release, calls } = await scene('deploy')
    const folders = releaseFolders(`${folder}/${release.appId}`, release.number)
    await mkdir(folders.root, { recursive: true })
    const marked = (deploymentId: string) =>
      writePrepared(folders, { install: null, dependenciesOf: null, deploymentId })
    const prepare = () => step(({ prepareRelease }) => prepareRelease(release))
    await marked(release.deploymentId!)
    t.deepEqual(await prepare(), { needsInstall: false })
    t.false(calls.includes('engine.remove'))
    await marked('of a time that the database has forgotten')
    await prepare().catch(() => {}) // its files are missing
    t.true(calls.includes('engine.remove'))
    t.is(await readPrepared(folders), null)
  },
)

test.serial('files that a release brings, places or undoes are flushed to disk before it is reported', async t => {
  const { db, step, release, before, calls } = await scene('deploy', 'h1', {
    store: { open: async () => ({ close: async () => {} }) } as never,
    archives: { unpack: async () => {} } as never,
    volumes: {
      path: (appId: string) => `${folder}/${appId}`,
      ensure: async () => {},
      async flush() {
        const marker = (await readPrepared(lending ? served : folders)) !== null
        calls.push(`flushed ${marker ? 'after' : 'before'} the marker`)
      },
    } as never,
  })
  const [folders, served] = [release, before].map(({ number }) =>
    releaseFolders(`${folder}/${release.appId}`, number),
  ) as [ReleaseFolders, ReleaseFolders]
  let lending = false
  await mkdir(`${folder}/${release.appId}/releases`, { recursive: true })
  await db('deployments')
    .where({ id: release.deploymentId })
    .update({ segment_id: await allocateSegment(db) })
  await step(({ prepareRelease }) => prepareRelease(release))
  t.truthy(await readPrepared(folders))
  t.is(calls.at(-1), 'flushed before the marker')
  await step(({ placeFiles }) => placeFiles(release))
  t.deepEqual(calls.slice(-2), ['placement.place', 'flushed after the marker'])
  await step(({ restoreFiles }) => restoreFiles(release))
  t.deepEqual(calls.slice(-2), ['placement.restore', 'flushed after the marker'])
  await mkdir(folders.dependencies)
  await writePrepared(folders, { install: 'npm ci', dependenciesOf: null, deploymentId: release.deploymentId })
  await mkdir(served.root)
  lending = true
  calls.length = 0
  await step(({ lendDependencies }) => lendDependencies(release, before))
  t.is((await readPrepared(served))?.dependenciesOf, release.number)
  t.deepEqual(
    calls,
    ['flushed after the marker'],
    'what serves names them from its next start on, also after a power cut',
  )
})

/** Steps that may have to wait for an image, and the kinds of operations in which they are seen here. */
const waitsForImage: Record<string, { kind: OperationKind; ask: Asked; image: string }> = {
  startRelease: { kind: 'deploy', ask: ({ startRelease }, { release }) => startRelease(release), image: 'node:22' },
  startApp: {
    kind: 'start',
    ask: ({ startApp }, { before }) => startApp(before, { mustStand: false }),
    image: 'node:22',
  },
  installDependencies: {
    kind: 'deploy',
    ask: ({ installDependencies }, { release }) => installDependencies(release),
    image: 'node:22',
  },
}

for (const [name, { kind, ask, image }] of Object.entries(waitsForImage))
  test(`${name} shows that it waits for an image, in its operation and in the log of its deployment`, async t => {
    const { db, id, step, release, before, engine, app } = await scene(kind)
    const shown = async () => (await db('operations').where({ id }).first()).step
    const folders = releaseFolders(`${folder}/${app.id}`, release.number)
    await mkdir(folders.root, { recursive: true })
    await writePrepared(folders, { install: 'npm ci', dependenciesOf: null, deploymentId: release.deploymentId })
    let waited = ''
    engine.ensureImage = async (_: string, onProgress: (line: string) => void = () => {}) => {
      onProgress('pulling node:22')
      if (waited) return
      await comesTrue(async () => /preparing image/.test((await shown()) ?? ''))
      waited = await shown()
      // The step needs no more of the engine.
      if (name === 'installDependencies') throw new ImageUnavailable('no registry')
    }
    const asked = step(activities => ask(activities, { release, before }))
    if (name === 'installDependencies') await t.throwsAsync(asked, { message: /no registry/ })
    else await asked
    t.regex(waited, new RegExp(`preparing image ${image}: pulling node:22$`))
    t.notRegex((await shown()) ?? '', /preparing image/)
    if (release.deploymentId)
      t.regex(await readLog(db, release.deploymentId), /^preparing image node:22: pulling node:22\n/m)
  })

test('a build has the memory that its application has reserved, whatever the configuration of its release asks for', async t => {
  const { db, app, id, step, release, engine } = await scene('deploy')
  const memoryMb = 32_768
  await db('deployments')
    .where({ id: release.deploymentId })
    .update({ config: JSON.stringify(configFile({ memoryMb, subdomain: app.subdomain })) })
  const options = { appsDomain: 'x.test', diskMbPer256Mb: 10 }
  t.like((await decide(db, options, id))?.release, { ramMb: memoryMb, reservedMb: 512 })
  const folders = releaseFolders(`${folder}/${app.id}`, release.number)
  await mkdir(folders.source, { recursive: true })
  await writePrepared(folders, { install: 'npm ci', dependenciesOf: null, deploymentId: release.deploymentId })
  const built: number[] = []
  engine.runToEnd = async spec => {
    built.push(spec.memoryMb)
    return { exitCode: 0, oom: false }
  }
  await step(({ installDependencies }) => installDependencies(release))
  t.deepEqual(built, [2048])
})

test.serial(
  'a step that changes files waits for a slot of the host without the lock of its application, until it is cancelled',
  async t => {
    const real = placement()
    let waiting = 0
    const inSlot: typeof real.inSlot = (account, signal, work) => {
      waiting++
      return real.inSlot(account, signal, work).finally(() => waiting--)
    }
    const { step, release, before, user } = await scene('deploy', 'h1', { placement: { ...real, inSlot } })
    for (const leave of [1, 2].map(() => placingSlots.enterNow(user.id))) t.teardown(() => leave?.())
    for (const name of ['placeFiles', 'restoreFiles', 'settleFiles', 'discardRelease'] as const) {
      const given = new AbortController()
      const asked = step(activities => activities[name](release), given.signal)
      asked.catch(() => {})
      await comesTrue(() => waiting === 1)
      await step(({ stopApp }) => stopApp(before, { mustRun: false }))
      given.abort(new Error('given up'))
      await t.throwsAsync(asked, { message: `${name} was cancelled` })
      t.is(waiting, 0)
    }
  },
)

for (const late of ['prepareRelease', 'installDependencies'] as const)
  test.serial(
    `an attempt at ${late} that was given up and goes on writes nothing along with the next one, nor into what is discarded`,
    async t => {
      const { db, activities, release, calls, engine, ...made } = await scene('deploy', 'h1', {
        store: { open: async () => ({ close: async () => {} }) } as never,
        archives: {
          unpack: () => at('prepareRelease'),
        } as never,
      })
      const held: (() => void)[] = []
      let holding = true
      let most = 0
      let now = 0
      const at = async (name: string) => {
        if (name !== late) return
        most = Math.max(most, ++now)
        if (holding) await new Promise<void>(resolve => held.push(resolve))
        now--
      }
      engine.runToEnd = async (_, __, signal) => {
        await at('installDependencies')
        signal.throwIfAborted()
        return { exitCode: 0, oom: false }
      }
      await db('deployments')
        .where({ id: release.deploymentId })
        .update({ segment_id: await allocateSegment(db) })
      await mkdir(`${folder}/${release.appId}/releases`, { recursive: true })
      const attempt = (number: number, name: 'prepareRelease' | 'installDependencies' | 'discardRelease') =>
        asActivity({ run: 'lane', step: 5 }, () => activities[name](release) as Promise<unknown>, undefined, number)
      const folders = releaseFolders(`${folder}/${release.appId}`, release.number)
      if (late === 'installDependencies') {
        await mkdir(folders.source, { recursive: true })
        await writePrepared(folders, { install: 'npm ci', dependenciesOf: null, deploymentId: release.deploymentId })
      }
      const first = attempt(1, late)
      await comesTrue(() => held.length === 1)
      const second = attempt(2, late)
      await sleep(1000) // it has checked its operation, and waits for the first one
      const third = attempt(3, 'discardRelease')
      for (const given of [first, second]) given.catch(() => {})
      calls.length = 0
      await made.step(({ removeContainer }) => removeContainer(release)) // others continue
      t.deepEqual([calls, held.length], [['engine.remove'], 1])
      holding = false
      held[0]!()
      await t.throwsAsync(first, { message: /later attempt/ })
      await t.throwsAsync(second, { message: /later attempt/ })
      await third
      t.is(most, 1)
      if (late === 'prepareRelease') t.is(await readPrepared(folders), null)
      await t.notThrowsAsync(attempt(4, late))
    },
  )

test('an application of another host, another release, and a step that its operation does not have are refused', async t => {
  const { calls, step, release, before } = await scene('deploy')
  const elsewhere = await scene('deploy', 'h9')
  for (const name of ['prepareRelease', 'startRelease', 'placeFiles', 'removeContainer'] as const)
    await t.throwsAsync(
      elsewhere.step<unknown>(activities => activities[name](elsewhere.release)),
      refused(/is not on the host h9/),
    )
  await t.throwsAsync(
    step(({ startRelease }) => startRelease({ ...release, number: 7 })),
    refused(/Release 7/),
  )
  await t.throwsAsync(
    step(({ startApp }) => startApp(release, { mustStand: false })),
    refused(/Release 2/),
  )
  await t.throwsAsync(
    step(({ removeFiles }) => removeFiles(release)),
    refused(/No deploy has the step removeFiles/),
  )
  await t.throwsAsync(
    step(({ removeContainers }) => removeContainers(before)),
    refused(/No deploy has the step/),
  )
  t.deepEqual([...calls, ...elsewhere.calls], [])
})

test('files are removed once their application is deleted, and not before', async t => {
  const { db, app, step, release, calls } = await scene('delete')
  await t.throwsAsync(
    step(({ removeFiles }) => removeFiles(release)),
    refused(/not deleted yet/),
  )
  t.deepEqual(calls, [])
  await db('apps').where({ id: app.id }).delete()
  await step(({ removeFiles }) => removeFiles(release))
  t.deepEqual(calls, ['volumes.remove', 'engine.removeNetwork', 'engine.removeShare'])
})

test('after a deploy has ended, its lane retires the previous release, and cannot end the one that serves', async t => {
  const { db, app, id, step, release, before, engine, calls } = await scene('deploy')
  await step(({ startApp }) => startApp(before, { mustStand: false }))
  await step(({ startRelease }) => startRelease(release))
  await db('apps').where({ id: app.id }).update({ release: 2 })
  await finishOperation(db, id, { state: 'success' })
  calls.length = 0
  for (const name of ['stopApp', 'removeContainer', 'discardRelease'] as const)
    await t.throwsAsync(
      step<unknown>(activities => activities[name](release, { mustRun: false })),
      refused(/Release 2 of application .* serves/),
    )
  await t.throwsAsync(
    step(({ startRelease }) => startRelease(release)),
    { message: /no longer works on/ },
  )
  t.deepEqual(calls, [])
  await step(({ stopApp }) => stopApp(before, { mustRun: false }))
  await step(({ removeContainer }) => removeContainer(before))
  await step(({ settleFiles }) => settleFiles(release))
  t.deepEqual(calls, ['engine.stop', 'engine.remove', 'placement.settle'])
  t.deepEqual([...engine.containers.keys()], [appContainerName(release)])
})

test('a lane of an older version names no operation: its run’s current one is used', async t => {
  const { db, app, id, step, release, before, calls, activities } = await scene('deploy')
  const old = ({ operationId: _, ...nameless }: Release): Release => nameless
  await step(({ startRelease }) => startRelease(old(release)))
  await step(({ stopApp }) => stopApp(old(before), { mustRun: false }))
  await db('apps').where({ id: app.id }).update({ release: 2 })
  await finishOperation(db, id, { state: 'success' })
  await step(({ removeContainer }) => removeContainer(old(before)))
  t.true(calls.includes('engine.start') && calls.includes('engine.remove'))
  const other = asActivity({ run: 'another', step: 9 }, () => activities.removeContainer(old(before)))
  t.is(await other.catch(error => error.type), claimLost)
})

test('a record with a wrong application, kind or release of an operation writes nothing', async t => {
  const { db, id, release, app } = await scene('deploy')
  const victim = await scene('deploy')
  const claim = () => ({ run: 'lane', step: 6 })
  const records = recordActivities({ db, plans: defaultPlans, appsDomain: 'x.test', diskMbPer256Mb: 10, claim })
  const rowsNow = () =>
    Promise.all(
      [app.id, victim.app.id].flatMap(appId => [
        db('apps').where({ id: appId }),
        db('operations').where({ target_id: appId }),
      ]),
    )
  const right: LaneOperation = { id, kind: 'deploy', wasDesired: 'running', wasRunning: true, release }
  const forged: LaneOperation[] = [
    { ...right, release: { ...release, appId: victim.app.id } },
    { ...right, kind: 'delete' },
    { ...right, release: { ...release, deploymentId: victim.release.deploymentId } },
    { ...right, release: { ...release, number: 7 } },
  ]
  const before = await rowsNow()
  for (const one of forged) {
    await t.throwsAsync(records.appDeleted(one), { message: /no longer works on/ })
    await t.throwsAsync(records.recordDesired(one, 'stopped'), { message: /no longer works on/ })
  }
  const step = { operationId: id, words: 'forged' }
  await t.throwsAsync(records.recordStatus(victim.app.id, 'exited', step), { message: /no longer works on/ })
  t.deepEqual(await rowsNow(), before)
  await records.recordDesired(right, 'stopped')
  t.like(await loadApp(db, app.id), { desired_state: 'stopped' })
})

test('a commit onto a lost disk is refused and creates none; a push brings every file, gets a new disk and logs it', async t => {
  const volumes = folderVolumes(join(folder, 'lost'))
  const lost = await scene('deploy', 'h1', { volumes })
  const prepare = () => lost.step(({ prepareRelease }) => prepareRelease(lost.release))
  const segmentId = await allocateSegment(lost.db)
  for (const filename of [null, 'berth.app']) {
    await lost.db('deployments').where({ app_id: lost.app.id }).update({ segment_id: segmentId, filename })
    const error = await t.throwsAsync(prepare(), refused(/are no longer at its host/))
    t.like(error, { type: 'ACTION_FAILED', nonRetryable: true })
    t.deepEqual(await volumes.list(), [])
  }

  const fetch = async () => void writeFileSync(join(folders.source, 'index.js'), '')
  const pushed = await scene('deploy', 'h1', { volumes, sharedUid: 1000, git: { fetch } as never })
  const folders = releaseFolders(volumes.path(pushed.app.id), 2)
  const git = { source: 'git', clone_url: 'https://git.test/a', branch: 'main' }
  await pushed.db('deployments').where({ app_id: pushed.app.id }).update(git)
  await pushed.step(({ prepareRelease }) => prepareRelease(pushed.release))
  t.deepEqual(await volumes.list(), [pushed.app.id])
  const log = () => readLog(pushed.db, pushed.release.deploymentId!)
  t.true((await log()).startsWith(newDiskLine('git')))
  await pushed.step(({ prepareRelease }) => prepareRelease(pushed.release))
  t.is((await log()).split(newDiskLine('git')).length, 2, 'a second attempt finds the disk of the first')
})

test('a restore onto a lost disk logs what is lost: what was written since the snapshot', async t => {
  const volumes = folderVolumes(join(folder, 'lost-before-restore'))
  const { db, app, release } = await scene('deploy', 'h1', { volumes })
  const restored = { ...release, source: { kind: 'snapshot', segmentId: null } as const }
  await ensureDiskFor({ db, volumes }, 'restore', restored, 1000)
  t.deepEqual(await volumes.list(), [app.id])
  const log = await readLog(db, release.deploymentId!)
  t.true(log.endsWith('what the program has written since the snapshot is lost.\n'), log)
})

test('a disk that is full while a release is prepared ends the deploy with its own code, and leaves nothing half written', async t => {
  demandRoot()
  const mount = join(folder, 'small')
  await mkdir(mount)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'none', mount])
  t.teardown(() => execFileSync('umount', [mount]))
  const volumes = Object.assign(folderVolumes(mount), { ensure: async () => {}, flush: async () => {} })
  const store = { get: async () => [Buffer.alloc(200_000), Buffer.alloc(200_000)] }
  const { db, app, step, release } = await scene('deploy', 'h1', { volumes, store: store as never })
  await mkdir(join(mount, app.id, 'releases'), { recursive: true })
  await mkdir(join(mount, app.id, 'files'))
  await db('deployments')
    .where({ app_id: app.id })
    .update({ segment_id: await allocateSegment(db), filename: 'big.bin' })
  const error = await t.throwsAsync(
    step(({ prepareRelease }) => prepareRelease(release)),
    refused(/no disk space left/),
  )
  t.like(error, { type: 'CONTAINER_INSUFFICIENT_DISK_SPACE', nonRetryable: true })
  t.false(existsSync(releaseFolders(volumes.path(app.id), 2).root))
  t.is((await statfs(mount)).bavail, (await statfs(mount)).blocks)
})

type Activities = Parameters<Parameters<Awaited<ReturnType<typeof scene>>['step']>[0]>[0]
type Asked = (activities: Activities, releases: { release: Release; before: Release }) => Promise<unknown>

const inTurn: Record<string, [kind: OperationKind, asked: Asked]> = {
  placeFiles: ['deploy', ({ placeFiles }, { release }) => placeFiles(release)],
  restoreFiles: ['deploy', ({ restoreFiles }, { release }) => restoreFiles(release)],
  removeContainers: ['delete', ({ removeContainers }, { release }) => removeContainers(release)],
  startApp: ['start', ({ startApp }, { before }) => startApp(before, { mustStand: false })],
}

for (const [name, [kind, asked]] of Object.entries(inTurn))
  test(`${name} whose operation ends while it waits for its lock has no effect`, async t => {
    const { db, id, step, release, before, calls, engine, ...turn } = await busyScene(kind)
    // It was created from other settings, so a start would stop it.
    const spec = { name: appContainerName(before), network: 'n', publish: null, command: ['node'] }
    engine.networks.add('n')
    await engine.create({ ...spec, labels: { [labels.app]: release.appId } } as never)
    await engine.start(spec.name)
    calls.length = 0
    await turn.hold()
    const waiting = step(activities => asked(activities, { release, before }))
    await Promise.race([waiting, turn.waits()])
    await finishOperation(db, id, { state: 'error', code: 'ACTION_FAILED' })
    turn.over()
    await t.throwsAsync(waiting, { message: /no longer works on/ })
    t.deepEqual(
      calls.filter(call => !harmless.has(call)),
      [],
    )
    t.true((await engine.inspect(spec.name))?.running)
  })

/** What a start needs before it takes the lock. */
const harmless = new Set(['volumes.ensure', 'engine.ensureNetwork', 'engine.ensureImage'])

const afterTheEnd: Record<string, Asked> = {
  stopApp: ({ stopApp }, { release }) => stopApp(release, { mustRun: false }),
  removeContainer: ({ removeContainer }, { release }) => removeContainer(release),
  discardRelease: ({ discardRelease }, { release }) => discardRelease(release),
}

for (const [name, asked] of Object.entries(afterTheEnd))
  test(`${name} does not touch a release that started to serve while it waited for its lock`, async t => {
    const { db, app, id, step, release, before, calls, engine, ...turn } = await busyScene('deploy')
    await step(({ startRelease }) => startRelease(release))
    calls.length = 0
    await turn.hold()
    const waiting = step(activities => asked(activities, { release, before }))
    await Promise.race([waiting, turn.waits(1)])
    await db('apps').where({ id: app.id }).update({ release: release.number })
    await finishOperation(db, id, { state: 'success' })
    turn.over()
    await t.throwsAsync(waiting, refused(/Release 2 of application .* serves/))
    t.deepEqual(calls, [])
    t.true((await engine.inspect(appContainerName(release)))?.running)
  })

const givenUp: Record<string, Asked> = {
  ...afterTheEnd,
  settleFiles: ({ settleFiles }, { release }) => settleFiles(release),
}

for (const [name, asked] of Object.entries(givenUp))
  test(`${name} that was given up while it waited for its lock has no effect`, async t => {
    const { step, release, before, calls, ...turn } = await busyScene('deploy')
    const cancelled = new AbortController()
    await turn.hold()
    const waiting = step(activities => asked(activities, { release, before }), cancelled.signal)
    await Promise.race([waiting, turn.waits()])
    cancelled.abort()
    turn.over()
    await t.throwsAsync(waiting)
    t.deepEqual(calls, [])
  })
