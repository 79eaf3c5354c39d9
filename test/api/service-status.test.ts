import test from 'ava'
import { type Check, ServiceStatus } from '../../api/service-status.ts'

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

test('who asks again within 5 minutes is told what is known; askers at once share one look', async t => {
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
