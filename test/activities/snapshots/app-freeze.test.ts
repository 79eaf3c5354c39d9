import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { type ContainerSpec, labels } from '../../../activities/containers/port.ts'
import { appFreeze, unpauseAbandoned } from '../../../activities/snapshots/app-freeze.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'

const hostId = 'h'

/** A host with application `one`, its build and another application. */
async function scene() {
  const engine = new FakeContainerHost()
  const locks = appLocks()
  engine.networks.add('n')
  const start = async (name: string, app: string, role: string) => {
    const spec = { name, network: 'n', command: [], publish: null, labels: {} } as unknown as ContainerSpec
    await engine.create({
      ...spec,
      labels: { [labels.host]: hostId, [labels.app]: app, [labels.role]: role, [labels.release]: '1' },
    })
    await engine.start(name)
  }
  await start('one-1', 'one', 'app')
  await start('one-2', 'one', 'app')
  await start('one-build', 'one', 'build')
  await start('two-1', 'two', 'app')
  const paused = async () => (await engine.list({})).filter(({ status }) => status === 'paused').map(({ name }) => name)
  return { engine, locks, paused, still: appFreeze({ engine, locks, hostId }, 'one') }
}

test('every program of the application is frozen under its lock until it resumes', async t => {
  const { engine, locks, paused, still } = await scene()
  await engine.stop('one-2', 1)
  await still.pause()
  t.deepEqual(await paused(), ['one-1'])
  t.true(locks.busy('one'))
  let stopped = false
  const stop = locks('one', async () => {
    stopped = true
  })
  await locks('two', () => engine.stop('two-1', 1)) // others do not wait
  await sleep(20)
  t.false(stopped)
  await still.resume()
  t.deepEqual(await paused(), [])
  await stop
  t.false(locks.busy('one'))
  await still.resume()
})

test('a freeze waits for the lock', async t => {
  const { locks, paused, still } = await scene()
  let over = () => {}
  const held = locks('one', () => new Promise<void>(end => (over = end)))
  await sleep(1)
  const pausing = still.pause()
  await sleep(20)
  t.deepEqual(await paused(), [])
  over()
  await held
  await pausing
  t.deepEqual(await paused(), ['one-1', 'one-2'])
  await still.resume()
})

test('if one container cannot be frozen, all resume and the lock is released', async t => {
  const { engine, locks, paused, still } = await scene()
  const pause = engine.pause.bind(engine)
  engine.pause = async name => (name === 'one-2' ? Promise.reject(new Error('frozen solid')) : pause(name))
  await t.throwsAsync(still.pause(), { message: 'frozen solid' })
  t.deepEqual(await paused(), [])
  await still.resume()
  await locks('one', async () => {})
  t.false(locks.busy('one'))
})

test('a resume that fails because the engine is unreachable releases the lock, and the next look unpauses', async t => {
  const { engine, locks, paused, still } = await scene()
  await still.pause()
  engine.unreachable = true
  await t.throwsAsync(still.resume())
  engine.unreachable = false
  t.deepEqual(await paused(), ['one-1', 'one-2'])
  await unpauseAbandoned({ engine, locks, hostId }, await engine.list({}))
  t.deepEqual(await paused(), [])
})

test('a container that is frozen for a snapshot is not unpaused; one that a dead process left is', async t => {
  const { engine, locks, paused, still } = await scene()
  await still.pause()
  await unpauseAbandoned({ engine, locks, hostId }, await engine.list({}))
  t.deepEqual(await paused(), ['one-1', 'one-2'])
  await unpauseAbandoned({ engine, locks: appLocks(), hostId }, await engine.list({})) // the next process has its own locks
  t.deepEqual(await paused(), [])
  await still.resume()
})

test('a freeze without the lock is refused, as for a host that may no longer act', async t => {
  const { engine, paused } = await scene()
  const locks = appLocks(() => Promise.reject(new Error('not the host')))
  await t.throwsAsync(appFreeze({ engine, locks, hostId }, 'one').pause(), { message: 'not the host' })
  t.deepEqual(await paused(), [])
})
