import test, { type ExecutionContext } from 'ava'
import { AgentReader, readAgent } from '../../../activities/analytics/agents.ts'
import { type DuckDbOptions, openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { intake } from '../../../policy/network/analytics-terms.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, appB, bots, browsers, type LoggedRequest, linesOf, logged } from '../../kit/analytics/log-lines.ts'
import { ownFolder } from '../../kit/folders.ts'

const at = Date.parse('2026-11-26T12:00:00Z')
const window = { from: at - 1000, to: at + 3_600_000 }

async function scene(t: ExecutionContext, options: Partial<DuckDbOptions>) {
  const folder = ownFolder(t)
  const addresses = await testAddresses()
  const open = () => openDuckDb({ folder, addresses, onBroken: (_, error) => t.fail(String(error)), ...options })
  let engine = await open()
  t.teardown(() => engine.close())
  let end = 0
  const take = (requests: readonly LoggedRequest[]) =>
    engine.take({ day: '2026-11-26', file: 'f', head: 'h', end: ++end, lines: linesOf(requests) })
  const about = (appId: string) => ({ appId, ownerId: '1', window })
  return {
    take,
    /** A page of an application for each agent, a millisecond after the one before. */
    takeAgents: (agents: readonly string[], app = appA) =>
      take(agents.map((agent, n) => logged({ app, at: at + n, agent }))),
    async reopen() {
      await engine.close()
      engine = await open()
    },
    async counts(of: 'browsers' | 'devices' | 'bots', app = appA) {
      const answer = await engine.ask({ ...about(app), kind: 'analytics', filters: {} })
      return Object.fromEntries(answer[of].map(({ type, requests }) => [type, requests]))
    },
    async visits(app = appA) {
      const { visits } = await engine.ask({ ...about(app), kind: 'analytics', filters: {} })
      return visits.reduce((sum, entry) => sum + entry.visits, 0)
    },
    async texts(app = appA) {
      return (await engine.ask({ ...about(app), kind: 'logs' })).map(({ agent }) => agent).reverse()
    },
  }
}

const random = (count: number) => Array.from({ length: count }, (_, n) => `Made-up-${n}/1.0 of a flood`)

test('an agent that was not read is no visit, and one that has a number is not read again', async t => {
  let reading = true
  const agents = { traitsOf: (text: string) => (reading ? readAgent(text) : null) }
  const { takeAgents, reopen, counts, visits } = await scene(t, { agents })
  await takeAgents([browsers[0], bots[0]])
  t.is(await visits(), 1)
  reading = false
  await takeAgents([browsers[0], bots[0], browsers[3], bots[2]])
  await reopen()
  await takeAgents([browsers[0], bots[0], browsers[3], bots[2]])
  t.is(await visits(), 3, 'neither the bot nor what may be one')
  t.deepEqual(await counts('browsers'), { Chrome: 3, Googlebot: 3, Unknown: 4 })
  t.deepEqual(await counts('bots'), { 'Search Engine': 3 })
})

test('an application with a flood of new agents leaves the reading of others to them', async t => {
  const { take, counts, visits } = await scene(t, { agents: new AgentReader(() => 0) })
  const flood = random(intake.newAgentsPerSecond + 500).map(agent => logged({ app: appB, at, agent }))
  await take([...flood, ...browsers.map(agent => logged({ at, agent }))])
  t.deepEqual(await counts('browsers'), { Chrome: 2, Safari: 2, Firefox: 1 })
  t.is(await visits(), browsers.length)
  t.is(await visits(appB), intake.newAgentsPerSecond - browsers.length)
})

test('past the texts of a day only the texts of agents are missing, and an application has a share of them', async t => {
  const { takeAgents, reopen, counts, visits, texts } = await scene(t, { agentTexts: { perDay: 10, perApp: 6 } })
  await takeAgents(random(100), appB)
  t.is((await texts(appB)).filter(text => text !== null).length, 6)
  await takeAgents([...browsers, ...bots])
  await reopen()
  await takeAgents([...browsers, ...bots])
  const twice = (text: string | null) => [...browsers, ...bots].filter(agent => agent === text).length
  t.is((await texts()).filter(text => text !== null && twice(text) === 1).length, 2 * 4)
  t.deepEqual(await counts('bots'), { 'AI Crawler': 2, Monitoring: 2, 'Search Engine': 2, Unverified: 2 })
  t.deepEqual(await counts('devices'), { bot: 8, desktop: 6, mobile: 4 })
  const { Chrome, Safari, Firefox } = await counts('browsers')
  t.deepEqual({ Chrome, Safari, Firefox }, { Chrome: 4, Safari: 4, Firefox: 2 })
  t.is(await visits(), 2 * browsers.length)
  t.is(await visits(appB), 100)
  t.true((await counts('browsers', appB)).Unknown! >= 90, 'names that are made up are not recorded either')
})
