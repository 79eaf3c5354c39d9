import { Agent, type RequestOptions, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { containersLiveOn } from '../../cli/services/engine/answers.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { reachedFrom } from '../kit/platform/reached-from.ts'
import { demandRoot } from '../kit/root.ts'
import { secondEngine } from '../kit/servers/second-engine.ts'

const started = testPlatform({ hosts: {} })
const again = { liveRestore: true }
// `/close` ends its connection, so the proxy needs a new one for each request.
const program = {
  main: 'index.js',
  files: {
    'index.js': `require('node:http').createServer((request, answer) => {
  if (request.url === '/close') answer.setHeader('connection', 'close')
  answer.end('it goes on')
}).listen(process.env.PORT)`,
  },
}

test('an engine with live-restore that is stopped or killed and started again fails no request of clients that retry', async t => {
  demandRoot()
  t.timeout(240_000)
  const platform = await started
  const docker = await secondEngine(t)
  await docker.start({ liveRestore: true })
  t.true(await containersLiveOn(docker.address))
  await docker.engine.ensureImage('berth/node:22')
  platform.clearLater('a')
  const own = platform.hostSettings('a', {
    ...(await reachedFrom(docker.addresses.machine, platform, t)),
    DOCKER_HOST: docker.address,
    HOST_ADDRESS: docker.addresses.engine,
    HEALTH_GATE_SECONDS: '40',
  })
  const host = startEntry('host', own, docker.through)
  t.teardown(() => host.kill('SIGKILL'))
  await host.ready
  const { id, domain, operation } = await platform.deploy(await platform.api.makeUser(), program)
  t.is(operation.state, 'success', operation.message ?? undefined)
  await platform.serves(domain, 'it goes on')
  const startOf = async () => (await docker.engine.inspect(`berth-${id}-1`))?.startedAt?.getTime()
  const before = await startOf()

  const refused: { phase: string; way: string; seen: string }[] = []
  const answered = new Map<string, number>()
  let [phase, over] = ['at first', false]
  const agents = Array.from({ length: 4 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  t.teardown(() => {
    over = true
    for (const agent of agents) agent.destroy()
  })
  const proxy = { host: '127.0.0.1', port: platform.base.proxy.port, headers: { host: domain } }
  const container = { host: docker.addresses.engine, port: (await platform.row(id))!.host_port! }
  const clients: [way: string, target: RequestOptions][] = [
    // The connections of a client that keeps sending requests stay open, on both sides of the proxy.
    ...agents.map((agent): [string, RequestOptions] => ['proxy', { ...proxy, agent }]),
    // The proxy attempts a refused connection again.
    ['proxy, new', { ...proxy, path: '/close', agent: false }],
    ['proxy, new', { ...proxy, path: '/close', agent: false }],
    ['port', { ...container, agent: false }],
    ['port', { ...container, agent: false }],
  ]
  const asking = clients.map(async ([way, target]) => {
    for (; !over; await sleep(10)) {
      const asked = phase
      const seen = await page(target).catch(String)
      if (seen === '200 it goes on') answered.set(`${way} ${asked}`, (answered.get(`${way} ${asked}`) ?? 0) + 1)
      else refused.push({ phase: asked, way, seen })
    }
  })
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    phase = `ends by ${signal}`
    await docker.end(signal)
    phase = `away after ${signal}`
    await sleep(2000)
    phase = `starts after ${signal}`
    await docker.start(again)
    phase = `back after ${signal}`
    // Longer than the host watch, the firewall watch and the route keeper need to look again.
    await sleep(12_000)
  }
  over = true
  await Promise.all(asking)
  // The engine rewrites its firewall rules while it starts, which does not affect open connections.
  const unexpected = refused.filter(({ way, phase }) => way !== 'port' || !phase.startsWith('starts'))
  t.deepEqual(unexpected.slice(0, 20), [])
  for (const signal of ['SIGTERM', 'SIGKILL'])
    for (const at of [...phases('proxy'), ...phases('proxy, new'), 'port away', 'port back'])
      t.true(answered.get(`${at} after ${signal}`)! > 5, `${at} after ${signal}`)
  t.is(await startOf(), before, 'it is the same process')
})

const phases = (way: string) => [`${way} away`, `${way} starts`, `${way} back`]

function page(target: RequestOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(target, async answer => resolve(`${answer.statusCode} ${await text(answer)}`))
    sent.on('error', reject).end()
  })
}
