import test from 'ava'
import { type Db, openDatabase } from '../../db/database.ts'
import { diesAt, killAll } from '../kit/crash/crash-kit.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { type Entry, startEntry } from '../kit/platform/entry.ts'
import { type Deployed, type RunningHost, testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform({ hosts: {}, worker: false })

// Where nothing is written yet, a host that dies is one that was dead before: those lines are left out.
const exits = ['between the exit and its restart', 'watch.transaction:after']
const strays = ['watch.write:after', 'watch.stop:after', 'watch.setAside:after']
const boots = ['between the boot and its ports', 'boot.transaction:after']
const returns = ['watch.bringBack:after', 'watch.write:before', 'watch.write:after']

/** A host for each point, with room for exactly one application. */
const own = { HOST_MEMORY_MB: '512' }
const all = [...exits, ...strays, ...boots]
const hostOf = (point: string) => `h${all.indexOf(point)}`

/** A host process of its own, which dies at the point where it has a name. */
async function begin(host: string, point?: string): Promise<Entry> {
  const platform = await started
  return startEntry('host', platform.hostSettings(host, { ...own, ...(point && { CRASH_POINT: point }) }))
}

/** Host processes that die at these points, on these hosts. */
async function die(t: Parameters<typeof diesAt>[0], points: readonly string[], hosts: readonly string[]) {
  const armed = await Promise.all(points.map((point, n) => begin(hosts[n]!, point)))
  for (const [n, point] of points.entries()) await diesAt(t, armed[n]!, point)
  await killAll(armed)
}

/** Hosts in this process, one after the other. */
async function repair(hosts: readonly string[]): Promise<RunningHost[]> {
  const platform = await started
  const repaired: RunningHost[] = []
  for (const host of hosts) repaired.push(await platform.startHost(host, own))
  return repaired
}

/** A host that dies between two statements of one transaction: the second one waits for a lock that the test holds. */
async function dieBetween(host: string, second: string, locking: (trx: Db) => Promise<unknown>) {
  const { base, db, until } = await started
  const near = openDatabase({ url: base.url, pool: 1, statementTimeoutMs: 60_000, idleTransactionMs: 0 })
  const lock = await near.transaction()
  await locking(lock)
  const entry = await begin(host)
  const waiting = db('pg_stat_activity').where({ wait_event_type: 'Lock' }).whereLike('query', `${second}%`)
  await until(async () => (await waiting.clone()).length > 0, 90, `it waits with ${second}`)
  await entry.kill('SIGKILL')
  await lock.rollback()
  await near.destroy()
}

test('a host that dies between the lines of its watch, of the quarantine or of a new boot: the next one completes its work', async t => {
  t.timeout(400_000)
  const platform = await started
  const { db, base } = platform
  process.env.TEST_WORKFLOW_BUNDLE ??= await workflowBundle(base.folder)
  const worker = await platform.startWorker()
  const first = await repair(all.map(hostOf))
  const ana = await platform.api.makeUser()
  const apps: Deployed[] = []
  for (const _ of all) apps.push(await platform.upload(ana, nodeProgram('survived'), { MEMORY: '512' }))
  for (const app of apps) t.is(app.status, 200, app.text)
  for (const app of apps) t.like(await platform.ended(app.operationId), { state: 'success' })
  const placed = new Map<string, Deployed>()
  for (const app of apps) placed.set((await platform.row(app.id))!.host_id, app)
  const appOf = (point: string) => placed.get(platform.hostId(hostOf(point)))!
  const idsOf = (points: string[]) => points.map(point => appOf(point).id)
  const container = (point: string) => bareDocker.getContainer(`berth-${appOf(point).id}-1`)
  for (const host of first) await host.stop()
  await worker.stop() // operations for a dead host wait

  // Programs that crash after more than a minute; applications of which the database knows nothing; another boot.
  const crashing = db('apps').whereIn('id', idsOf(exits))
  await crashing.update({ autorestart: true, started_at: new Date(Date.now() - 120_000) })
  await Promise.all([...exits, ...boots].map(point => container(point).kill()))
  const kept = await db.raw('select jsonb_agg(apps)::text as rows from apps where id = any(?)', [idsOf(strays)])
  await db('apps').whereIn('id', idsOf(strays)).del()
  const booting = boots.map(point => platform.hostId(hostOf(point)))
  await db('hosts').whereIn('id', booting).update({ boot_id: 'of-before', routed_boot_id: 'of-before' })
  await db('apps').whereIn('id', idsOf(boots)).update({ boot_id: 'of-before' })

  const [exit, boot] = [exits[0]!, boots[0]!]
  await dieBetween(hostOf(boot), 'update "apps" set "host_port"', trx =>
    trx('apps')
      .where({ id: appOf(boot).id })
      .forUpdate(),
  )
  await dieBetween(hostOf(exit), 'insert into "operations"', trx =>
    trx.raw('lock table operations in share row exclusive mode'),
  )
  const points = all.filter(point => ![exit, boot].includes(point))
  await die(t, points, points.map(hostOf))

  const repaired = await repair(all.map(hostOf))
  const next = await platform.startWorker()
  for (const point of [...exits, ...boots]) await platform.serves(appOf(point).domain, 'survived', 60)
  for (const point of exits) {
    const { id } = appOf(point)
    const restarts = await db('operations').where({ target_id: id, actor: 'host-watch' }).pluck('id')
    t.is(restarts.length, 1, `one restart after ${point}`)
    t.like(await platform.ended(restarts[0]), { state: 'success' }, point)
    t.truthy((await platform.row(id))?.last_autorestart_at, point)
  }
  const aside = async () => {
    for (const point of strays) {
      const { volumes, containers } = await platform.remains(hostOf(point))
      if (volumes.length > 0 || (await container(point).inspect()).State.Running) return false
      t.is(containers.length, 1)
    }
    return true
  }
  await platform.until(aside, 60, 'strays are set aside whole, wherever that was cut')

  const quarantine = strays.map(hostOf)
  for (const host of repaired.filter((_, n) => strays.includes(all[n]!))) await host.stop()
  await next.stop()
  await db.raw('insert into apps select * from jsonb_populate_recordset(null::apps, ?::jsonb)', [kept.rows[0].rows])
  await die(t, returns, quarantine)
  await repair(quarantine)
  await platform.startWorker()
  for (const point of strays) await platform.serves(appOf(point).domain, 'survived', 60)
})
