import test from 'ava'
import { pino } from 'pino'
import { dockerHost } from '../../../activities/containers/docker/host.ts'
import { labels } from '../../../activities/containers/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { recordStarted } from '../../../db/apps/apps.ts'
import { hostBoot } from '../../../workers/host/host-boot.ts'
import { reconcile } from '../../../workers/host/host-comparison.ts'
import { HostMetrics } from '../../../workers/host/host-metrics.ts'
import { HostRounds } from '../../../workers/host/host-rounds.ts'
import { rows } from '../../kit/rows/rows.ts'
import { countedEngine } from '../../kit/servers/counted-engine.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const database = testDatabase({ ownServer: true })
const docker = realDocker()
const log = pino({ level: 'silent' })
test.before(() => docker.prepare())
test.after.always(() => docker.clean())

test('unchanged applications cost the engine the same, whatever their number', async t => {
  t.timeout(120_000)
  const { db } = await database
  const make = rows(db)
  const hostId = docker.run
  await make.host(hostId)
  await db('hosts').update({ last_seen_at: '2100-01-01' }) // it answers however long this takes
  const user = await make.user('enterprise-32')
  const counted = await countedEngine(t)
  const engine = dockerHost({ dockerHost: counted.address, makeRootfs: async () => null })

  /** One application more, which runs and is known to. */
  async function run() {
    const { app } = await make.app(user.id, { memoryMb: 512 })
    await db('apps').where({ id: app.id }).update({ host_id: hostId })
    await db('operations').where({ target_id: app.id }).update({ state: 'success' })
    const spec = docker.spec('exec sleep 600', { name: `berth-${app.id}-1` })
    spec.labels = { ...spec.labels, [labels.app]: app.id, [labels.release]: '1', [labels.role]: 'app' }
    const containerId = await docker.host.create(spec)
    await docker.host.start(spec.name)
    const { startedAt } = (await docker.host.inspect(spec.name))!
    await recordStarted(db, app.id, { release: 1, containerId, hostPort: null, bootId: 'boot', startedAt: startedAt! })
  }
  const metrics = new HostMetrics({ db, engine, hostId, log })
  const boot = await hostBoot({ db, engine, hostId, machineBootId: 'boot', held: async () => {}, log })
  const watched = {
    db,
    engine,
    hostId,
    boot,
    log,
    locks: appLocks(),
    volumes: { list: async () => [] },
  }
  const rounds = new HostRounds(watched as never)
  rounds.follow(true)
  const costs = async () => {
    await rounds.round() // everything, or what is new
    await rounds.round()
    await metrics.round(Date.now()) // new ones are sampled once
    await reconcile(watched as never)
    return {
      watch: await counted.during(() => rounds.round()),
      everything: await counted.during(() => reconcile(watched as never)),
      metrics: await counted.during(() => metrics.round(Date.now())),
      sign: await counted.during(() => engine.ping()),
    }
  }

  for (let n = 0; n < 2; n++) await run()
  const few = await costs()
  for (let n = 0; n < 3; n++) await run()
  t.deepEqual(await costs(), few)
  const list = 'GET /containers/json'
  t.deepEqual(few, {
    ...{ watch: ['GET /networks/bridge'], everything: ['GET /networks/bridge', list] },
    metrics: [list],
    sign: ['GET /_ping'],
  })
})
