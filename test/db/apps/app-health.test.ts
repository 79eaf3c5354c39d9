import test from 'ava'
import * as apps from '../../../db/apps/apps.ts'
import { domainChangesSince } from '../../../db/domains/domain-changes.ts'
import { listServedDomains } from '../../../db/domains/domain-lists.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const health = { status: 'unhealthy', since: '2030-01-01T00:00:00.000Z', reason: '/ready answered 503' }

/** An unhealthy application that runs. */
async function unhealthyApp() {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const user = await make.user()
  const { app } = await make.app(user.id, { memoryMb: 512, health: '/ready' })
  const started = { release: 1, containerId: `c-${app.id}`, hostPort: null, bootId: 'b1' }
  await apps.recordStarted(db, app.id, { ...started, startedAt: new Date() })
  const update = (values: object) => db('apps').where({ id: app.id }).update(values)
  await update({ health })
  const row = async () => (await apps.loadApp(db, app.id))!
  return { db, app, update, row }
}

test('another run and another path begin without a health, also where the process that records them knows of none', async t => {
  const { update, row } = await unhealthyApp()
  const kept = async (values: object) => {
    await update({ health })
    await update(values)
    return (await row()).health
  }
  const { started_at } = await row()
  t.deepEqual(await kept({ status: 'running', started_at, health_path: '/ready', last_stats: '{}' }), health as never)
  t.is(await kept({ container_id: 'another' }), null)
  t.is(await kept({ started_at: new Date('2030-01-01') }), null)
  t.is(await kept({ status: 'exited', started_at: null }), null)
  t.is(await kept({ health_path: '/other' }), null)
  t.is(await kept({ health_path: null }), null)
  const next = { ...health, status: 'healthy', reason: null }
  t.deepEqual(await kept({ health_path: '/ready', health: next }), next as never, 'what is recorded with it counts')
})

test('a member is marked only while it is checked, and runs unhealthy or is not known to be healthy, and each change of that is announced', async t => {
  const { db, app, update } = await unhealthyApp()
  const hostname = 'marked.example.com'
  await assignDomain(db, { app: { id: app.id, owner_id: app.owner_id }, hostname, plans: defaultPlans })
  const seen = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }
  await recordLook(db, (await findDomain(db, hostname))!, seen)
  let { mark } = await domainChangesSince(db, null)
  /** Whether it is marked after a change, and whether that was announced. */
  const after = async (values: object) => {
    // While another transaction of the cluster is open, a change is announced again.
    await comesTrue(async () => {
      const read = await domainChangesSince(db, mark)
      mark = read.mark
      return read.changed?.includes(hostname) === false
    })
    await update(values)
    const read = await domainChangesSince(db, mark)
    mark = read.mark
    const [served] = await listServedDomains(db, [hostname])
    return [served?.members[0]?.health, read.changed?.includes(hostname)]
  }
  t.deepEqual(await after({ last_stats: '{}' }), ['unhealthy', false])
  t.deepEqual(await after({ status: 'restarting' }), ['healthy', true])
  t.deepEqual(await after({ status: 'running' }), ['unhealthy', true])
  t.deepEqual(await after({ health_path: null }), ['healthy', true])
  t.deepEqual(await after({ health }), ['healthy', false], 'a late result of a path that was removed')
  t.deepEqual(await after({ health_path: '/ready' }), ['unknown', true])
  t.deepEqual(await after({ health }), ['unhealthy', true])
  const healthy = { ...health, status: 'healthy' }
  t.deepEqual(await after({ health: healthy }), ['healthy', true])
  t.deepEqual(await after({ container_id: 'another' }), ['unknown', true], 'a run that has just begun')
  t.deepEqual(await after({ health: healthy }), ['healthy', true])
})
