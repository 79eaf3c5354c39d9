import test from 'ava'
import { AgentReader, readAgent } from '../../../activities/analytics/agents.ts'
import { intake } from '../../../policy/network/analytics-terms.ts'
import { botCategory } from '../../../policy/network/bots.ts'
import { browsers } from '../../kit/analytics/log-lines.ts'

test('bots have the category that their agent claims, the more specific one first', t => {
  const category = (agent: string) => readAgent(agent).bot
  t.is(category('Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'), 'Search Engine')
  t.is(category('AdsBot-Google (+http://www.google.com/adsbot.html)'), 'Advertising')
  t.is(category('Mozilla/5.0 (compatible; GPTBot/1.2)'), 'AI Crawler')
  t.is(category('Mozilla/5.0 (compatible; OAI-SearchBot/1.0)'), 'AI Search')
  t.is(category('Mozilla/5.0+(compatible; UptimeRobot/2.0)'), 'Monitoring')
  t.is(category('curl/8.5.0'), 'Unverified')
  t.is(category('some-unheard-of-crawler/1.0'), 'Unverified')
  t.is(
    category(
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
    ),
    null,
  )
  t.is(botCategory(''), null)
})

test('devices, systems and browsers are named, and what is not known is Unknown', t => {
  t.deepEqual(
    readAgent(
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
    ),
    {
      device: 'mobile',
      os: 'iOS',
      browser: 'Safari',
      bot: null,
    },
  )
  const unknown = { device: 'Unknown', os: 'Unknown', browser: 'Unknown', bot: null }
  t.deepEqual(readAgent(''), unknown)
  t.like(readAgent('\u0000\ufffd"\\'), { device: 'Unknown', os: 'Unknown' })
})

test('a flood of new agents is read up to a number in each second, and known ones always', t => {
  let now = 0
  const reader = new AgentReader(() => now)
  const read = (from: number, count: number) =>
    Array.from({ length: count }, (_, n) => reader.traitsOf(`agent ${from + n}`)).filter(traits => traits !== null)
      .length
  t.is(read(0, intake.newAgentsPerSecond + 500), intake.newAgentsPerSecond)
  t.is(read(0, 100), 100, 'known')
  now = 1000
  t.is(read(10_000, 10), 10)
})

test('of more agents than are remembered those that were not seen for longest are forgotten', t => {
  let now = 0
  const reader = new AgentReader(() => now)
  const regular = browsers[0]
  t.truthy(reader.traitsOf(regular))
  for (let n = 0; n < intake.agents + 10; n++) {
    now += 1000
    reader.traitsOf(`agent ${n}`)
    if (n % 1000 === 0) reader.traitsOf(regular)
  }
  // Nothing more is read in this second.
  for (let n = 0; n < intake.newAgentsPerSecond; n++) reader.traitsOf(`other ${n}`)
  t.truthy(reader.traitsOf(regular))
  t.truthy(reader.traitsOf(`agent ${intake.agents}`))
  t.is(reader.traitsOf('agent 0'), null)
})
