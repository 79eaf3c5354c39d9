import { createServer as createHttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'
import test from 'ava'
import { dockerHost } from '../../activities/container-host.docker.ts'
import { HostUnreachable } from '../../activities/container-host.ts'
import { containerHostContract, missingImage, programs } from '../contracts/container-host.ts'
import { listening } from '../kit/api.ts'
import { FakeContainerHost, type FakeProgram } from '../kit/container-host.fake.ts'
import { engineFact, realDocker } from '../kit/docker.ts'

const docker = realDocker()
test.before(() => docker.prepare())
test.after.always(() => docker.clean())

containerHostContract(test.serial, 'docker', () => ({
  host: docker.host,
  spec: (program, change) => docker.spec(programs[program], change),
}))

const fakePrograms: Record<string, FakeProgram> = {
  [programs.speaks]: { prints: 'out\núltima\n', complains: 'err\n' },
  [programs.fails]: { prints: 'no\n', exits: 3 },
  [programs.installs]: { prints: 'one\ntwo\n', exits: 0, afterMs: 200 },
  [programs.rambles]: { prints: `${'é'.repeat(100_000)}\nend\n` },
  [programs.floods]: { floods: true },
  [programs.stubborn]: { ignoresTerm: true },
  [programs.swallows]: { exits: 137, oom: true, afterMs: 50 },
}
const fake = new FakeContainerHost(fakePrograms, [missingImage])
fake.networks.add(docker.network)
containerHostContract(test.serial, 'fake', () => ({
  host: fake,
  spec: (program, change) => docker.spec(programs[program], change),
}))

test.serial('an engine that is not there, or does not answer, is unreachable', async t => {
  const none = dockerHost({ dockerHost: 'unix:///nowhere/docker.sock', makeRootfs: async () => null })
  await t.throwsAsync(none.ping(), { instanceOf: HostUnreachable })
  await t.throwsAsync(none.ensureImage('berth/node:22'), { instanceOf: HostUnreachable })

  const sockets: Socket[] = []
  const silent = createServer(socket => sockets.push(socket)).listen(0, '127.0.0.1')
  await new Promise(done => silent.once('listening', done))
  const { port } = silent.address() as { port: number }
  const hung = dockerHost({ dockerHost: `tcp://127.0.0.1:${port}`, makeRootfs: async () => null })
  const begun = Date.now()
  const verbs = [
    hung.ping(),
    hung.inspect('x'),
    hung.start('x'),
    hung.remove('x'),
    hung.list({}),
    hung.create(docker.spec('true')),
  ]
  for (const verb of verbs) await t.throwsAsync(verb, { instanceOf: HostUnreachable })
  t.true(Date.now() - begun < 12_000)
  silent.close()
  for (const socket of sockets) socket.destroy()
})

test.serial(
  'what a program is given stands in the body of the request, never in its address, which engines log',
  async t => {
    const heard: string[] = []
    const engine = createHttpServer(async (request, response) => {
      const chunks = await request.toArray()
      heard.push(String(request.url), Buffer.concat(chunks).toString())
      response.writeHead(201, { 'content-type': 'application/json' }).end('{"Id":"c1"}')
    })
    t.teardown(() => engine.close())
    const address = (await listening(engine)).replace('http', 'tcp')
    const spec = docker.spec('true', { env: { SECRET: 'geheim' } })
    t.is(await dockerHost({ dockerHost: address, makeRootfs: async () => null }).create(spec), 'c1')
    t.is(heard[0], `/containers/create?name=${spec.name}`)
    t.deepEqual(JSON.parse(heard[1]!).Env, ['SECRET=geheim'])
  },
)

test.serial('many networks at once get ranges of their own, far beyond the engine’s default of 30', async t => {
  const names = Array.from({ length: 32 }, (_, n) => `berth-${docker.run}-many-${n}`)
  await Promise.all(names.map(name => docker.host.ensureNetwork({ name, labels: {} })))
  for (const name of names) await docker.host.removeNetwork(name)
  t.pass()
})

test.serial('readings follow what a program does, and agree with the engine', async t => {
  const busy = docker.spec("exec node -e 'for(;;);'", { cpus: 0.5, memoryMb: 256 })
  await docker.host.create(busy)
  await docker.host.start(busy.name)
  await docker.host.stats(busy.name)
  await new Promise(done => setTimeout(done, 1500))
  const stats = (await docker.host.stats(busy.name))!
  t.true(stats.cpuPercent > 0 && stats.cpuPercent < 65, `${stats.cpuPercent} %`)
  const engine = await engineFact(`/containers/${busy.name}/stats?stream=false&one-shot=true`)
  t.is(stats.memoryLimitBytes, engine.memory_stats.limit)
  t.true(Math.abs(stats.memoryBytes - engine.memory_stats.usage) < 30_000_000)
  t.true(stats.networkIn <= engine.networks.eth0.rx_bytes)
  await docker.host.remove(busy.name)
})
