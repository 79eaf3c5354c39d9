import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { labels } from '../../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../../activities/containers/spec.ts'
import { databaseContainerName, databaseRole, databaseVolume } from '../../../../activities/databases/names.ts'
import { strayBook } from '../../../../activities/hosts/stray-book.ts'
import { appLocks } from '../../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../../activities/volumes/folder.ts'
import * as apps from '../../../../db/apps/apps.ts'
import { newAppId, newId } from '../../../../policy/ids.ts'
import { reconcile } from '../../../../workers/host/host-comparison.ts'
import { HostRounds } from '../../../../workers/host/host-rounds.ts'
import { watchHost } from '../../../../workers/host/host-watch.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { FakeContainerHost } from '../../../kit/fakes/container-host.ts'
import { inBoot } from '../../../kit/hosts/boots.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })
const day = 24 * 3_600_000
const uid = process.getuid?.() ?? 0

const folder = mkdtempSync(join(tmpdir(), 'berth-apps-only-'))
test.after.always(() => rmSync(folder, { recursive: true, force: true }))

/** Notes of which applications containers were listed, `all` or an id, and which networks were to be removed. */
class ListingEngine extends FakeContainerHost {
  readonly listed: string[] = []
  readonly unneeded: string[] = []

  override async removeNetwork(name: string) {
    this.unneeded.push(name)
    await super.removeNetwork(name)
  }

  override async list(filter: Record<string, string>) {
    this.listed.push(filter[labels.app] ?? 'all')
    return super.list(filter)
  }
}

/** An application that runs on a host of its own, and databases of its owner there, of which only containers and volumes exist. */
async function hostWith(count: number) {
  const { db } = await database
  const make = rows(db)
  const hostId = `h-${newAppId()}`
  const user = await make.user()
  await make.host(hostId, { memoryMb: 2_000_000_000 - Math.floor(Math.random() * 1e6) })
  const { app } = await make.app(user.id)
  await db('operations').where({ target_id: app.id }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ host_id: hostId }) // first: the host that was chosen may be another test's
  const startedAt = new Date(Date.now() - 120_000)
  await apps.recordStarted(db, app.id, { release: 1, containerId: 'c1', hostPort: null, bootId: 'boot-1', startedAt })

  const engine = new ListingEngine()
  const volumes = folderVolumes(join(folder, hostId))
  const { name: network } = tenantNetwork(user.id, hostId)
  await engine.ensureNetwork(tenantNetwork(user.id, hostId))
  const run = async (name: string, own: Record<string, string>) => {
    const marks = { [labels.host]: hostId, [labels.owner]: user.id, [labels.release]: '1', ...own }
    await engine.create({ name, network, command: ['run'], publish: null, labels: marks } as never)
    await engine.start(name)
  }
  const appName = `berth-${app.id}-1`
  await run(appName, { [labels.app]: app.id, [labels.role]: 'app' })
  await volumes.ensure(app.id, 16, uid)
  const databases = Array.from({ length: count }, () => ({ id: newId(), generation: 1 }))
  for (const one of databases) {
    await run(databaseContainerName(one), { [labels.database]: one.id, [labels.role]: databaseRole })
    await volumes.ensure(databaseVolume(one), 16, uid)
  }
  const strays = strayBook(join(folder, `${hostId}.json`))
  const options = { db, engine, volumes, hostId, log, strays, boot: inBoot('boot-1'), locks: appLocks() }
  return { db, app, appName, engine, volumes, options, databases, network }
}

test('the watch of applications leaves containers and volumes of databases as they are', async t => {
  const { options, engine, volumes, databases, app } = await hostWith(4)
  const before = await volumes.list()
  t.deepEqual(before, [app.id, ...databases.map(databaseVolume)].sort())
  for (const days of [0, 8, 30]) {
    await reconcile({ ...options, now: () => Date.now() + days * day })
    t.deepEqual(await volumes.list(), before, `after ${days} days`)
    for (const one of databases) t.true((await engine.inspect(databaseContainerName(one)))?.running)
  }
})

test('events of databases cause no comparison of applications', async t => {
  const { options, engine, databases, app, appName } = await hostWith(1)
  const ending = new AbortController()
  const rounds = new HostRounds(options)
  const watched = watchHost({ ...options, everySeconds: 600 }, ending.signal, rounds)
  await comesTrue(async () => engine.listed.includes('all'))
  await rounds.round() // after the one that has just listed them
  engine.listed.length = 0
  await engine.stop(databaseContainerName(databases[0]!), 1)
  await engine.start(databaseContainerName(databases[0]!))
  await engine.stop(appName, 1)
  await comesTrue(async () => (await apps.loadApp(options.db, app.id))?.status === 'exited')
  ending.abort()
  await watched
  t.true(engine.listed.includes(app.id))
  t.false(engine.listed.includes('all'))
})

test('the network of an owner stays while a database of the owner has a container', async t => {
  for (const count of [1, 0]) {
    const { db, app, options, engine, network } = await hostWith(count)
    await db('operations').insert({
      ...{ id: newId(), target_id: app.id, kind: 'delete', owner_id: app.owner_id, actor: 'o', state: 'success' },
    })
    await db('deployments').where({ app_id: app.id }).delete()
    await db('apps').where({ id: app.id }).delete()
    await reconcile(options)
    t.is(engine.containers.size, count)
    t.deepEqual(engine.unneeded, count > 0 ? [] : [network])
  }
})
