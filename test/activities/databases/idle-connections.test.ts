import { connect, type TLSSocket } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { redisEngine } from '../../../activities/databases/engines/redis/redis.ts'
import { databaseContainerName } from '../../../activities/databases/names.ts'
import { EngineUnavailable, type RemoteEngine } from '../../../activities/databases/port.ts'
import { connectionsOf } from '../../../policy/databases/engines.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { type HostStepsTerms, hostSteps } from '../../kit/databases/host-steps.ts'
import { placeElsewhere } from '../../kit/databases/strangers.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const redis = { engine: 'redis', version: '8', ramMb: 512 } as const

/** Opens connections that never log in until none gets through to the engine any more. */
async function occupy(t: ExecutionContext, { host, port, authority, servername }: RemoteEngine): Promise<void> {
  const idle: TLSSocket[] = []
  t.teardown(() => {
    for (const socket of idle) socket.destroy()
  })
  const open = () =>
    new Promise<void>(done => {
      const socket = connect({ host, port, ca: authority, servername }, done)
      idle.push(socket.on('error', () => done()).on('close', () => done()))
    })
  for (let number = 0; number < connectionsOf('redis', redis.ramMb).inAll; number++) await open()
  await t.throwsAsync(redisEngine.login({ host, port, authority, servername }, ''), { instanceOf: EngineUnavailable })
}

async function serving(t: ExecutionContext, terms: Partial<HostStepsTerms> = {}) {
  const host = await hostSteps((await database).db, { ...redis, ...terms })
  t.teardown(host.clean)
  await host.create()
  const stops = () => host.stops.length
  return {
    ...host,
    /** Of the engine, for the work of one operation. */
    async restarts(work: () => Promise<unknown>): Promise<number> {
      const before = stops()
      await work()
      return stops() - before
    },
    async rotate(): Promise<void> {
      const rotation = await host.begin('rotate')
      await host.db('databases').where({ id: host.id }).update({ password_generation: 2 })
      await rotation.step((steps, input) => steps.setDatabasePassword(input, 1))
      await rotation.end()
    },
  }
}

test.serial('connections that never log in are ended by the next password, without a restart', async t => {
  const host = await serving(t)
  await occupy(t, await host.remote())
  t.is(await host.restarts(host.rotate), 0)
  t.is(await redisEngine.login(await host.remote(), await host.password(2)), 'accepted')
})

test.serial('an engine whose port stays occupied is restarted once for the proof of a new password', async t => {
  let occupies: (() => Promise<void>) | null = null
  const host = await serving(t, {
    adapter: ({ setPassword }) => ({
      async setPassword(engine) {
        const effect = await setPassword(engine)
        const again = occupies
        occupies = null
        await again?.()
        return effect
      },
    }),
  })
  const remote = await host.remote()
  occupies = () => occupy(t, remote)
  t.is(await host.restarts(host.rotate), 1)
  t.is(await redisEngine.login(remote, await host.password(2)), 'accepted')
})

test.serial('an engine whose port is occupied is restarted once for the proof of a new certificate', async t => {
  const host = await serving(t)
  const renewal = await host.begin('certify')
  const renew = () => renewal.step((steps, input) => steps.reissueCertificate(input))
  t.is(await host.restarts(renew), 0)
  await occupy(t, await host.remote())
  t.is(await host.restarts(renew), 1)
  t.is(await redisEngine.login(await host.remote(), await host.password(1)), 'accepted')
})

test.serial(
  'the first new password after a change of the domain restarts the engine once, which then has a certificate of the new name',
  async t => {
    const host = await serving(t)
    host.moveTo('other.localhost')
    t.is(await host.restarts(host.rotate), 1)
    const remote = await host.remote()
    t.regex(remote.servername, /other\.localhost$/)
    t.is(await redisEngine.login(remote, await host.password(2)), 'accepted')
  },
)

test.serial('an engine that no restart makes answer is not restarted by every attempt', async t => {
  const silent = () => Promise.reject(new EngineUnavailable('It does not answer.'))
  let isSilent = false
  const host = await serving(t, {
    adapter: ({ login }) => ({ login: (...args) => (isSilent ? silent() : login(...args)) }),
  })
  isSilent = true
  const { db } = await database
  const row = db('databases').where({ id: (await host.facts()).id })
  await row.clone().update({ renewal_failures: 2 })
  const failures = async () => (await row.clone().first('renewal_failures')).renewal_failures
  const renewal = await host.begin('certify')
  const attempt = (number: number) => () =>
    t.throwsAsync(
      renewal.step((steps, input) => steps.reissueCertificate(input), undefined, number),
      { message: /does not answer/ },
    )
  t.is(await host.restarts(attempt(4)), 0)
  t.is(await failures(), 2, 'nothing has shown that it serves the new one')
  isSilent = false
  await renewal.step((steps, input) => steps.reissueCertificate(input))
  t.is(await failures(), 0)
  isSilent = true
  for (const number of [1, 3]) t.is(await host.restarts(attempt(number)), 1, String(number))
})

test.serial(
  'strangers who hold all connections from elsewhere cost no new password, certificate or snapshot a restart',
  async t => {
    const elsewhere = await placeElsewhere()
    t.teardown(elsewhere.clean)
    const host = await serving(t, { bind: elsewhere.machine })
    const most = connectionsOf('redis', redis.ramMb).elsewhere
    const crowd = elsewhere.crowd((await host.remote()).port, 'redis', elsewhere.addresses, most)
    const isFull = () => comesTrue(() => crowd.open().reduce((sum, open) => sum + open) === most)
    const began = async () => (await host.engine.inspect(databaseContainerName(await host.facts())))?.startedAt
    const first = await began()
    await isFull()
    await host.rotate()
    t.is(await redisEngine.login(await host.remote(), await host.password(2)), 'accepted')
    await isFull()
    const renewal = await host.begin('certify')
    await renewal.step((steps, input) => steps.reissueCertificate(input))
    await renewal.end()
    await isFull()
    const snapshot = await host.beginSnapshot()
    await snapshot.step((steps, input) => steps.takeDatabaseSnapshot(input))
    await isFull()
    t.truthy(first)
    t.deepEqual(await began(), first)
  },
)
