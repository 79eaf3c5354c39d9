import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import { domainSteps } from '../../../activities/domains/domain-steps.ts'
import { hosted } from '../../../activities/failures.ts'
import { assignDomain, findDomain, lookNow } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { parseConfig } from '../../../policy/config.ts'
import { domainWork } from '../../../workers/domains/domain-work.ts'
import { temporalDomains } from '../../../workers/temporal/domains.ts'
import { startWorker, workflowCode } from '../../../workers/temporal/temporal-worker.ts'
import { platformQueue } from '../../../workflows/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { TestDns } from '../../kit/servers/dns.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const closers: (() => Promise<unknown>)[] = []
// Serial: the database and Temporal end after it.
test.serial.after.always('stop the worker', async () => {
  for (const close of closers.reverse()) await close()
})
const [database, temporal] = [testDatabase(), testTemporal()]

/** A worker that takes two steps of names at a time. */
async function narrowWorker() {
  const [{ db, url }, { address, queuePrefix }] = [await database, await temporal]
  const dns = await TestDns.start()
  closers.push(() => dns.stop())
  const settings = { DATABASE_URL: url, TEMPORAL_ADDRESS: address, QUEUE_PREFIX: queuePrefix, DNS_SERVERS: dns.address }
  const config = parseConfig(settings, process.cwd())
  const { parts } = await domainWork(config, db)
  const worker = await startWorker(config, pino({ level: 'silent' }), {
    ...workflowCode(process.env.TEST_WORKFLOW_BUNDLE),
    taskQueue: platformQueue(queuePrefix),
    activities: hosted(domainSteps(parts)),
    maxConcurrentActivityTaskExecutions: 2,
  })
  closers.push(() => worker.stop())
  const client = new Client({ connection: await Connection.connect({ address }) })
  closers.push(() => client.connection.close())
  const domains = temporalDomains(client, config)
  const make = rows(db)
  await make.host('h1', { memoryMb: 65_536 })
  const looks = async (hostname: string) => (await findDomain(db, hostname))!.looks
  return {
    dns,
    looks,
    /** An account with names that were looked at once. */
    async account(...hostnames: string[]) {
      const { id } = await make.user()
      for (const hostname of hostnames) {
        const { app } = await make.app(id)
        await assignDomain(db, { app: { id: app.id, owner_id: id }, hostname, plans: defaultPlans })
        await domains.wake(hostname)
      }
      for (const hostname of hostnames) await comesTrue(async () => (await looks(hostname)) > 0)
    },
    async wake(hostname: string) {
      await lookNow(db, hostname)
      await domains.wake(hostname)
    },
  }
}

test('an account whose name servers are silent for many names keeps no other account waiting', async t => {
  t.timeout(180_000)
  const { dns, looks, account, wake } = await narrowWorker()
  const silent = Array.from({ length: 6 }, (_, n) => `n${n}.silent.dev`)
  await account(...silent)
  await account('shop.dev')
  for (const name of silent) for (const asked of [name, `_berth.${name}`]) dns.misbehave(asked, 'silence')
  const before = new Map(await Promise.all(silent.map(async name => [name, await looks(name)] as const)))
  const asked = dns.questions.length
  await Promise.all(silent.map(wake))
  await comesTrue(() => dns.questions.slice(asked).some(({ name }) => name.endsWith('silent.dev')))
  const seen = await looks('shop.dev')
  await wake('shop.dev')
  await comesTrue(async () => (await looks('shop.dev')) > seen, 120)
  const looked = await Promise.all(silent.map(async name => (await looks(name)) > before.get(name)!))
  t.true(looked.filter(Boolean).length <= 2, `${looked} of the other account were looked at before`)
  for (const name of silent) for (const asked of [name, `_berth.${name}`]) dns.misbehave(asked, null)
})
