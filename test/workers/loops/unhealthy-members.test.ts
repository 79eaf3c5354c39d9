import test from 'ava'
import { pino } from 'pino'
import * as apps from '../../../db/apps/apps.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { healthChecks } from '../../../policy/hosts/health-checks.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { HealthChecks } from '../../../workers/host/health-checks.ts'
import { DomainRounds } from '../../../workers/loops/domain-rounds.ts'
import { keepRoutes } from '../../../workers/loops/route-keeper.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { ask, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

const ends = new AbortController()
let keeper: Promise<void> | undefined
test.serial.after.always('end the keeper', () => {
  ends.abort()
  return keeper
})
let proxy: TestProxy
test.before(async () => {
  proxy = await startProxy()
})
test.serial.after.always(() => proxy?.stop())
const database = testDatabase()
const log = pino({ level: 'silent' })
const appsDomain = 'apps.localhost'
const host = 'group.shop.dev'

/** A program that names its application, and whose health the test sets. */
async function member(ownerId: string, n: number) {
  const { db } = await database
  const make = rows(db)
  const program = { healthy: true, id: '' }
  const origin = await startOrigin((incoming, answer) => {
    if (incoming.url === '/ready') answer.writeHead(program.healthy ? 200 : 503)
    answer.end(program.id)
  })
  const { app } = await make.app(ownerId, { health: '/ready', memoryMb: 512, subdomain: `member-${n}` })
  await db('operations').where({ target_id: app.id }).update({ state: 'success' })
  const started = { release: 1, containerId: `c${n}`, hostPort: origin.port, hostAddress: '127.0.0.1', bootId: 'b1' }
  const start = () => apps.recordStarted(db, app.id, { ...started, startedAt: new Date() })
  await start()
  program.id = app.id
  return { app, program, origin, start }
}

test('a member leaves the rotation with its third failure and comes back with its first success, by announcement alone', async t => {
  const { db, url } = await database
  const make = rows(db)
  await make.host('h1')
  const ana = await make.user()
  const members = [await member(ana.id, 1), await member(ana.id, 2)] as const
  t.teardown(() => Promise.all(members.map(({ origin }) => origin.stop())))
  const edge = proxy.edge
  const answers = { 'acme-challenge': async () => null, 'berth-check': async () => null }
  const domains = new DomainRounds({ db, keys: sealKeys('ab'.repeat(32)), edge, appsDomain, answers })
  // No round comes by itself.
  const options = { db, databaseUrl: url, edge, appsDomain, machine: { bootId: 'b1', owns: () => true }, log, domains }
  keeper = keepRoutes({ ...options, edgeName: 'proxy', everySeconds: 3600 }, ends.signal)
  for (const { app } of members) {
    await assignDomain(db, { app: { id: app.id, owner_id: ana.id }, hostname: host, plans: defaultPlans })
    const proved = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }
    await recordLook(db, (await findDomain(db, host))!, proved)
  }
  let now = 0
  const checks = new HealthChecks({ db, hostId: 'h1', appsDomain, log, now: () => now })
  const check = async () => {
    checks.see(await apps.listAppsOfHost(db, 'h1'))
    now += healthChecks.everySeconds * 1000
    await checks.round()
    await checks.settled()
  }
  const answering = async () => {
    const all = new Set<string>()
    for (let n = 0; n < 20; n++) all.add((await ask(proxy.port, host)).body)
    return [...all].sort()
  }
  const both = members.map(({ app }) => app.id).sort()
  const [first, second] = members
  const areAnswering = (ids: string[]) => comesTrue(async () => (await answering()).join() === ids.join())
  await areAnswering(both)
  await check()

  first.program.healthy = false
  await check()
  await check()
  t.deepEqual(await answering(), both, 'two failures change nothing')
  await check()
  await areAnswering([second.app.id])
  t.is((await ask(proxy.port, `member-1.${appsDomain}`)).body, first.app.id, 'its own name leads to it')

  second.program.healthy = false
  for (let n = 0; n < healthChecks.failures; n++) await check()
  await areAnswering(both)

  second.program.healthy = true
  await check()
  await areAnswering([second.app.id])
  first.program.healthy = true
  await check()
  await areAnswering(both)

  first.program.healthy = false
  for (let n = 0; n < healthChecks.failures; n++) await check()
  await areAnswering([second.app.id])
  await first.start()
  t.deepEqual(await answering(), [second.app.id])
  await check()
  t.is((await apps.loadApp(db, first.app.id))?.health, null, 'it has not passed a check since')
  t.deepEqual(await answering(), [second.app.id])
  first.program.healthy = true
  await check()
  await areAnswering(both)

  await first.start()
  await areAnswering([second.app.id])
  t.is((await ask(proxy.port, `member-1.${appsDomain}`)).body, first.app.id, 'its own name leads to it at once')
  await second.start()
  await areAnswering(both)
})
