import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { labels } from '../../../activities/containers/port.ts'
import { strayBook } from '../../../activities/hosts/stray-book.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import * as apps from '../../../db/apps/apps.ts'
import { newAppId } from '../../../policy/ids.ts'
import { reconcile } from '../../../workers/host/host-comparison.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { inBoot } from '../../kit/hosts/boots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })
const day = 24 * 3_600_000

const folder = mkdtempSync(join(tmpdir(), 'berth-strays-'))
test.after.always(() => rmSync(folder, { recursive: true, force: true }))

/** A host with running containers and volumes of these applications, whatever the database says of them. */
async function hostWith(ids: string[], hostId = `h-${newAppId()}`) {
  const { db } = await database
  const engine = new FakeContainerHost()
  const volumes = folderVolumes(join(folder, hostId))
  const strays = strayBook(join(folder, `${hostId}.json`))
  await engine.ensureNetwork({ name: 'net' } as never)
  for (const id of ids) {
    const name = `berth-${id}-1`
    const spec = { name, network: 'net', command: ['run'], publish: null }
    const own = { [labels.host]: hostId, [labels.app]: id, [labels.release]: '1', [labels.owner]: 'o' }
    await engine.create({ ...spec, labels: own } as never)
    await engine.start(name)
    await volumes.ensure(id, 16, process.getuid?.() ?? 0)
  }
  const locks = appLocks()
  const look = (now = Date.now()) =>
    reconcile({ db, engine, volumes, strays, locks, hostId, boot: inBoot('boot-1'), log, now: () => now })
  const runs = async (id: string) => (await engine.inspect(`berth-${id}-1`))?.running
  return { db, look, runs, volumes, list: () => volumes.list(), containers: () => engine.containers.size }
}

/** The database comes to know an application that runs on this host, as one that was restored does. */
async function remember(hostId: string): Promise<string> {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  await make.host(hostId, { memoryMb: 2_000_000_000 - Math.floor(Math.random() * 1e6) })
  const { app } = await make.app(user.id)
  await db('deployments').where({ app_id: app.id }).del()
  await db('operations').where({ target_id: app.id }).del()
  const startedAt = new Date(Date.now() - 120_000)
  await apps.recordStarted(db, app.id, { release: 1, containerId: 'c1', hostPort: null, bootId: 'boot-1', startedAt })
  await db('apps').where({ id: app.id }).update({ host_id: hostId })
  return app.id
}

test('a host whose database knows none of its many applications touches nothing', async t => {
  const ids = Array.from({ length: 5 }, newAppId).sort()
  const host = await hostWith(ids)
  for (const now of [Date.now(), Date.now() + 30 * day]) await host.look(now)
  for (const id of ids) t.true(await host.runs(id))
  t.deepEqual(await host.list(), ids)
})

test('with a database of last night, newer applications are quarantined entirely, and restored when known again', async t => {
  const hostId = `h-${newAppId()}`
  const kept = await remember(hostId)
  const late = await remember(hostId)
  const { db } = await database
  const row = await db('apps').where({ id: late }).first()
  await db('apps').where({ id: late }).del()
  const host = await hostWith([kept, late], hostId)
  await host.look()
  t.true(await host.runs(kept))
  t.false(await host.runs(late), 'nobody answers for it')
  t.deepEqual(await host.list(), [kept])
  t.is(host.containers(), 2, 'the container is there')
  await host.look(Date.now() + 6 * day)
  t.is(host.containers(), 2)

  await db('apps').insert(row)
  await host.look()
  t.deepEqual(await host.list(), [kept, late].sort())
  const queued = await db('operations').where({ target_id: late }).select('kind', 'actor', 'state')
  t.deepEqual(queued, [{ kind: 'start', actor: 'host-watch', state: 'queued' }])
  t.is((await apps.loadApp(db, late))?.status, 'running', 'its end was no exit of its own')
})

test('an application that cannot be quarantined or restored delays no others, and is retried', async t => {
  const hostId = `h-${newAppId()}`
  const ids = await Promise.all([1, 2, 3].map(() => remember(hostId)))
  const [kept, ...late] = ids as [string, ...string[]]
  const { db, look, list, volumes } = await hostWith(ids, hostId)
  const missing = await db('apps').whereIn('id', late)
  await db('apps').whereIn('id', late).del()
  /** The verb fails for the application that it is called for first, once. */
  const failsOnce = (verb: 'setAside' | 'bringBack') => {
    const { [verb]: real } = volumes
    let calls = 0
    volumes[verb] = id => (++calls === 1 ? Promise.reject(new Error('a damaged image')) : real(id))
  }
  failsOnce('setAside')
  await look()
  t.is((await list()).length, 2, 'the other one was set aside')
  await look()
  t.deepEqual(await list(), [kept])
  await db('apps').insert(missing)
  failsOnce('bringBack')
  await look()
  t.is((await list()).length, 2, 'the other one is back')
  await look()
  t.deepEqual(await list(), [...ids].sort())
  for (const { status, exit_code } of await db('apps').whereIn('id', late))
    t.deepEqual([status, exit_code], ['running', null])
})

test('quarantined applications are removed after 7 days, the remains of a deletion immediately', async t => {
  const hostId = `h-${newAppId()}`
  const kept = await remember(hostId)
  const deleted = newAppId()
  const unknown = newAppId()
  const host = await hostWith([kept, deleted, unknown], hostId)
  const operation = { id: '5'.repeat(8) + deleted, target_id: deleted, kind: 'delete', owner_id: 'o', actor: 'o' }
  await host.db('operations').insert({ ...operation, state: 'success' })
  await host.look()
  t.is(await host.runs(deleted), undefined)
  t.false(await host.runs(unknown))
  t.deepEqual(await host.list(), [kept])
  await host.look(Date.now() + 7 * day)
  t.is(await host.runs(unknown), undefined)
  t.is(host.containers(), 1)
  t.true(await host.runs(kept))
})

test('an application that lost its row without a deletion is quarantined, whatever was done with it before', async t => {
  const hostId = `h-${newAppId()}`
  const kept = await remember(hostId)
  const lost = newAppId()
  const host = await hostWith([kept, lost], hostId)
  const before = { target_id: lost, owner_id: 'o', actor: 'o' }
  for (const [n, kind, state] of [
    ['1', 'create', 'success'],
    ['2', 'deploy', 'error'],
    ['3', 'delete', 'error'],
  ] as const)
    await host.db('operations').insert({ ...before, id: n.repeat(8) + lost, kind, state })
  await host.look()
  t.is(await host.runs(lost), false)
  t.is(host.containers(), 2)
  t.deepEqual(await host.list(), [kept])
  // Its creation had failed after all.
  await host.db('operations').where({ target_id: lost, kind: 'create' }).update({ state: 'error' })
  await host.look()
  t.is(host.containers(), 1)
})
