import test from 'ava'
import { healthChecks, Latency } from '../../../api/status/health.ts'
import { type Check, ServiceStatus } from '../../../api/status/service-status.ts'
import { recordHostLeft, setDraining } from '../../../db/hosts/hosts.ts'
import { cachedSeconds } from '../../../policy/cached-answers.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

const check = (key: string, probe: Check['probe'], kind: Check['kind'] = 'services'): Check => ({
  key,
  name: key,
  kind,
  probe,
})

test('all well, limited, out and silent', async t => {
  const well = await new ServiceStatus([check('a', async () => null)]).current()
  t.is(well.status, 'online')
  t.deepEqual(well.services, { a: { name: 'a', status: 'operational' } })
  const report = await new ServiceStatus([
    check('a', async () => 'slow today'),
    check('b', async () => {
      throw new Error('password in the cause')
    }),
    check('c', () => new Promise(() => {}), 'dependencies'),
  ]).current()
  t.is(report.status, 'degraded')
  t.deepEqual(report.services, {
    a: { name: 'a', status: 'degraded', summary: 'slow today' },
    b: { name: 'b', status: 'outage', summary: 'b does not answer.' },
  })
  t.is(report.dependencies?.c?.status, 'outage')
  t.false(JSON.stringify(report).includes('password'))
})

test.serial('a clock that is set back keeps no report for longer', async t => {
  let [steadyMs, probes] = [1000, 0]
  const status = new ServiceStatus(
    [
      check('a', async () => {
        probes++
        return null
      }),
    ],
    () => steadyMs,
  )
  const wall = Date.now
  t.teardown(() => {
    Date.now = wall
  })
  t.false((await status.current()).stale)
  Date.now = () => wall() - 3_600_000
  steadyMs += cachedSeconds.serviceStatus * 1000 + 1
  t.true((await status.current()).stale)
  t.is(probes, 2)
})

test('hosts that drain are in maintenance, silent ones are out, of none nothing is known; with the figures of each', async t => {
  const { db } = await database
  const rest = { store: { head: async () => null } as never, pingEdge: async () => {}, pingWorkflows: async () => {} }
  const look = async () => {
    const report = await new ServiceStatus(healthChecks({ db, ...rest })).current()
    const { applications } = report.services!
    const { status, unresolved_incidents, degraded_components } = applications!
    return [report.status, status, unresolved_incidents, degraded_components]
  }
  t.deepEqual(await look(), ['degraded', 'unknown', undefined, undefined])
  for (const id of ['h1', 'h2']) await rows(db).host(id)
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  t.deepEqual(await look(), ['online', 'operational', undefined, undefined])
  await setDraining(db, 'h1', true)
  t.deepEqual(await look(), ['degraded', 'maintenance', 0, 1])
  await recordHostLeft(db, 'h2')
  t.deepEqual(await look(), ['degraded', 'degraded', 1, 2])
  await recordHostLeft(db, 'h1')
  t.deepEqual(await look(), ['degraded', 'outage', 2, 2])
})

test('each look asks the database one question of its own, whatever it reports', async t => {
  const { db } = await database
  let [asked, isAway] = [0, false]
  const counted = (text: string) => {
    if (text !== 'select 1') return db.raw(text)
    asked++
    return isAway ? Promise.reject(new Error('away')) : db.raw(text)
  }
  const seen = new Proxy(db, { get: (target, key) => (key === 'raw' ? counted : Reflect.get(target, key)) })
  const rest = { store: { head: async () => null } as never, pingEdge: async () => {}, pingWorkflows: async () => {} }
  const checks = healthChecks({ db: seen, ...rest })
  const look = async () => {
    const { services, dependencies } = await new ServiceStatus(checks).current()
    const { status, api_latency } = services!.api!
    return [status, typeof api_latency?.recent_ms, dependencies!.database!.status]
  }
  t.deepEqual(await look(), ['operational', 'number', 'operational'])
  t.is(asked, 1)
  t.deepEqual(await look(), ['operational', 'number', 'operational'])
  t.is(asked, 2)
  isAway = true
  t.deepEqual(await look(), ['operational', 'undefined', 'outage'])
})

test('the report distinguishes unknown states, maintenance and problems', async t => {
  t.is((await new ServiceStatus([]).current()).status, 'unknown')
  const report = await new ServiceStatus([
    check('a', async () => ({ status: 'maintenance', summary: 'later' })),
    check('b', async () => ({ status: 'unknown' })),
    check('c', async () => 'slow'),
  ]).current()
  t.is(report.message, 'Problems with: c. In maintenance: a. State unknown: b.')
})

test('how long the API takes is compared with the mean of a day', t => {
  const latency = new Latency()
  for (let hour = 0; hour < 10; hour++) latency.add(100, hour * 3_600_000)
  t.deepEqual(latency.add(240, 36_000_001), { recent_ms: 240, day_mean_ms: 113, elevated: false })
  t.deepEqual(latency.add(1460, 36_000_002), { recent_ms: 1460, day_mean_ms: 225, elevated: true })
  t.deepEqual(latency.add(10, 200_000_000), { recent_ms: 10, day_mean_ms: 10, elevated: false }, 'a day later')
})

test('a report is cached for 5 minutes; concurrent callers share one round of probes', async t => {
  let looks = 0
  const status = new ServiceStatus([
    check('a', async () => {
      looks++
      return null
    }),
  ])
  const reports = await Promise.all([status.current(), status.current(), status.current()])
  await status.current()
  t.is(looks, 1)
  t.is(new Set(reports.map(report => report.checked_at)).size, 1)
})
