import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { dockerHost } from '../../../activities/containers/docker/host.ts'
import { type ContainerSpec, HostUnreachable } from '../../../activities/containers/port.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { containerHostContract } from '../../contracts/containers/container-host.ts'
import { missingImage, programs } from '../../contracts/containers/host-under-test.ts'
import { listening } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost, type FakeProgram } from '../../kit/fakes/container-host.ts'
import { ownFolder } from '../../kit/folders.ts'
import { dockerAddress, engineFact, realDocker } from '../../kit/servers/docker.ts'
import { relayTo } from '../../kit/servers/relay.ts'

const docker = realDocker()
test.before(() => docker.prepare())
test.after.always(() => docker.clean())

containerHostContract(test.serial, 'docker', () => ({
  host: docker.host,
  spec: (program, change) => docker.spec(programs[program], change),
  fragile,
  crowded,
}))

/** The engine over a connection that can be cut. */
async function fragile(t: ExecutionContext) {
  const url = new URL(dockerAddress.replace(/^tcp:/, 'http:'))
  const line = await relayTo(
    url.protocol === 'unix:' ? { path: url.pathname } : { host: url.hostname, port: Number(url.port) },
  )
  t.teardown(() => line.close())
  const host = dockerHost({ dockerHost: `tcp://127.0.0.1:${line.port}`, makeRootfs: async () => null })
  return { host, fall: () => line.mode('cut'), rise: () => line.mode('pass') }
}

const publish = { port: 3000, address: '127.0.0.2' }

/** Its engine must create a folder on a disk that has no room for one more. */
function crowded(t: ExecutionContext): ContainerSpec {
  const folder = ownFolder(t)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k,nr_inodes=1', 'berth-full', folder])
  t.teardown(() => execFileSync('umount', [folder]))
  const binds = ['/app', '/app/missing'].map(target => ({ source: folder, target, readOnly: false }))
  return docker.spec(programs.waits, { binds, publish })
}

const fakePrograms: Record<string, FakeProgram> = {
  [programs.speaks]: { prints: 'out\núltima\n', complains: 'err\n' },
  [programs.talks]: { prints: Array.from({ length: 8000 }, (_, n) => `line ${1000 + n}\n`).join('') },
  [programs.fails]: { prints: 'no\n', exits: 3 },
  [programs.installs]: { prints: 'one\ntwo\n', exits: 0, afterMs: 200 },
  [programs.rambles]: { prints: `${'é'.repeat(100_000)}\nend\n` },
  [programs.floods]: { floods: true },
  [programs.stubborn]: { ignoresTerm: true },
  [programs.swallows]: { exits: 137, oom: true, afterMs: 50 },
  [programs.looksAround]: { prints: looksAround, exits: 0 },
  crowded: { crowded: true },
}

/** The container as its program sees it. */
function looksAround({ env, user, workingDir, binds }: ContainerSpec): string {
  const mounted = (name: string) => {
    const { source, readOnly } = binds.find(({ target }) => target === `${workingDir}/${name}`)!
    return { readOnly, file: join(source, 'told') }
  }
  const [kept, mine] = [mounted('kept'), mounted('mine')]
  for (const { readOnly, file } of [kept, mine]) if (!readOnly) writeFileSync(file, 'new\n', { flag: 'a' })
  const read = [kept, mine].map(({ file }) => readFileSync(file, 'utf8')).join('')
  return `${env.WORD}\n${user} in ${workingDir}\n${read}${kept.readOnly ? 'refused\n' : ''}`
}

const fake = new FakeContainerHost(fakePrograms, [missingImage])
fake.networks.add(docker.network)
containerHostContract(test.serial, 'fake', () => ({
  host: fake,
  spec: (program, change) => docker.spec(programs[program], change),
  async fragile() {
    const host = new FakeContainerHost(fakePrograms)
    host.networks.add(docker.network)
    const stands = async (unreachable: boolean) => {
      host.unreachable = unreachable
    }
    return { host, fall: () => stands(true), rise: () => stands(false) }
  },
  crowded: () => docker.spec('crowded', { publish }),
}))

test.serial('an engine that is missing, or does not answer, is unreachable', async t => {
  const none = dockerHost({ dockerHost: 'unix:///nowhere/docker.sock', makeRootfs: async () => null })
  await t.throwsAsync(none.ping(), { instanceOf: HostUnreachable })
  await t.throwsAsync(none.ensureImage('berth/node:22'), { instanceOf: HostUnreachable })

  const sockets: Socket[] = []
  const silent = createServer(socket => sockets.push(socket)).listen(0, '127.0.0.1')
  await new Promise(done => silent.once('listening', done))
  const { port } = silent.address() as { port: number }
  const hung = dockerHost({ dockerHost: `tcp://127.0.0.1:${port}`, makeRootfs: async () => null })
  const startTime = Date.now()
  const verbs = [
    hung.ping(),
    hung.inspect('x'),
    hung.start('x'),
    hung.remove('x'),
    hung.list({}),
    hung.create(docker.spec('true')),
  ]
  for (const verb of verbs) await t.throwsAsync(verb, { instanceOf: HostUnreachable })
  t.true(Date.now() - startTime < 12_000)
  silent.close()
  for (const socket of sockets) socket.destroy()
})

test.serial('an engine without space is reported as such for every request', async t => {
  // The engine's own disk is not filled here: these are its messages in that case.
  const engine = createHttpServer(async (request, response) => {
    await request.toArray()
    const verb = request.url!.split('?')[0]!
    const words = verb.startsWith('/networks') ? 'disk quota exceeded' : 'no space left on device'
    const isList = verb === '/networks'
    response.writeHead(isList ? 200 : request.method === 'GET' ? 404 : 500, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isList ? [] : { message: `${verb}: write /x: ${words}` }))
  })
  t.teardown(() => engine.close())
  const address = (await listening(engine)).replace('http', 'tcp')
  const host = dockerHost({ dockerHost: address, makeRootfs: async () => null })
  const asked = {
    create: () => host.create(docker.spec('true')),
    start: () => host.start('x'),
    network: () => host.ensureNetwork({ name: 'x', labels: {} }),
  }
  for (const [verb, ask] of Object.entries(asked)) await t.throwsAsync(ask(), { instanceOf: NoSpaceLeft }, verb)
})

test.serial(
  'variables of a program are sent in the body of the request, never in its URL, which engines log',
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

test.serial('a program whose children run out of memory in a loop causes no events', async t => {
  const dies = 'for n in 1 2 3 4 5; do tail /dev/zero; done; true'
  const container = docker.spec(dies, { memoryMb: 64 })
  const end = new AbortController()
  const seen: string[] = []
  const watching = docker.host.watch(container.labels, event => seen.push(`${event.name} ${event.action}`), end.signal)
  await docker.host.create(container)
  await docker.host.start(container.name)
  await comesTrue(async () => (await docker.host.inspect(container.name))?.running === false)
  t.true((await docker.host.inspect(container.name))!.oom, 'the kernel did end some of them')
  await docker.host.remove(container.name)
  await comesTrue(async () => seen.includes(`${container.name} destroy`))
  end.abort()
  await watching
  const own = seen.filter(event => event.startsWith(`${container.name} `)).map(event => event.split(' ')[1])
  // The engine decides from when on it sends events.
  t.deepEqual(
    own.filter(action => action !== 'start'),
    ['die', 'destroy'],
  )
})

test.serial(
  'a container runs under the runtime that is asked for, and under no other where the engine has not got it',
  async t => {
    const spec = docker.spec(programs.speaks, { runtime: 'runsc' })
    if ('runsc' in (await engineFact('/info')).Runtimes) {
      await docker.host.create(spec)
      t.is((await engineFact(`/containers/${spec.name}/json`)).HostConfig.Runtime, 'runsc')
    } else {
      await t.throwsAsync(docker.host.create(spec), { message: /runsc/ })
      t.is(await docker.host.inspect(spec.name), null)
    }
  },
)

/** Output of a command in a container of its own. */
async function said(command: string, change: Partial<ContainerSpec> = {}): Promise<string> {
  let output = ''
  const take = (text: string) => {
    output += text
  }
  await docker.host.runToEnd(docker.spec(command, change), take, AbortSignal.timeout(60_000))
  return output.trim()
}

test.serial('an alias leads to its container within its network, and nowhere in another one', async t => {
  const alias = 'db-1.apps.localhost'
  const named = docker.spec(programs.waits, { aliases: [alias] })
  const other = { name: `berth-${docker.run}-other`, labels: named.labels }
  t.teardown(() => docker.host.removeNetwork(other.name))
  await docker.host.ensureNetwork(other)
  await docker.host.create(named)
  await docker.host.start(named.name)
  const resolve = `exec node -e "require('dns').lookup('${alias}', { all: true }, (e, found) => console.log(e ? e.code : found.map(one => one.address).join()))"`
  t.is(await said(resolve), (await docker.host.inspect(named.name))!.address!)
  t.regex(await said(resolve, { network: other.name }), /^E(NOTFOUND|AI_AGAIN)$/)
  await docker.host.remove(named.name)
})

test.serial('a container has the requested shared memory, otherwise 64 MB', async t => {
  const size = 'df -k --output=size /dev/shm | tail -1'
  t.is(await said(size, { shmMb: 96 }), String(96 * 1024))
  t.is(await said(size), String(64 * 1024))
})

test.serial('a container without a network has nothing but its loopback', async t => {
  t.is(await said('ls /sys/class/net', { network: 'none' }), 'lo')
  const resolve = `exec node -e "require('dns').lookup('me.apps.localhost', (e, found) => console.log(e?.code ?? found))"`
  t.is(await said(resolve, { network: 'none', ownNames: ['me.apps.localhost'] }), '127.0.0.1')
})

test.serial('only a container with a network is reported with its network when it starts', async t => {
  const started: string[] = []
  const host = dockerHost({
    dockerHost: dockerAddress,
    makeRootfs: async () => null,
    started: async ({ name }) => void started.push(name),
  })
  const [alone, connected] = [docker.spec(programs.waits, { network: 'none' }), docker.spec(programs.waits)]
  for (const spec of [alone, connected]) {
    await host.create(spec)
    await host.start(spec.name)
    await host.remove(spec.name)
  }
  t.deepEqual(started, [connected.name])
})

test.serial(
  'many networks that are created concurrently get their own ranges, far beyond the engine’s default of 30',
  async t => {
    const names = Array.from({ length: 32 }, (_, n) => `berth-${docker.run}-many-${n}`)
    await Promise.all(names.map(name => docker.host.ensureNetwork({ name, labels: {} })))
    const ranges = await Promise.all(
      names.map(async name =>
        (await engineFact(`/networks/${name}`)).IPAM.Config.map((one: { Subnet: string }) => one.Subnet),
      ),
    )
    for (const name of names) await docker.host.removeNetwork(name)
    for (const range of ranges) t.regex(String(range), /^[\d.]+\.0\/24$/, 'one range of 254 addresses')
    t.is(new Set(ranges.flat()).size, names.length, 'no two have the same one')
  },
)

test.serial('readings follow the program, and agree with the engine', async t => {
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

test.serial('containers of one account share a control group, which is removed with the last of them', async t => {
  const share = `${Date.now()}`
  const ours = [1, 2].map(() => docker.spec('exec sleep 600', { share }))
  const other = docker.spec('exec sleep 600', { share: `${share}0` })
  /** Path of its CPU group, without the container's name. */
  const groupOf = async (name: string) => {
    await docker.host.start(name)
    const { State } = await engineFact(`/containers/${name}/json`)
    const lines = (await readFile(`/proc/${State.Pid}/cgroup`, 'utf8')).trim().split('\n')
    const line = lines.find(one => one.split(':')[1]?.split(',').includes('cpu')) ?? lines.at(-1)!
    return dirname(line.split(':').at(-1)!)
  }
  for (const one of [...ours, other]) await docker.host.create(one)
  const [first, second, apart] = await Promise.all([...ours, other].map(({ name }) => groupOf(name)))
  t.is(first, second)
  t.true(first!.includes(share), first)
  t.is(dirname(apart!), dirname(first!), 'groups next to each other weigh the same')
  t.not(apart, first)
  const groups = () => [`/sys/fs/cgroup${first}`, `/sys/fs/cgroup/cpu${first}`].filter(path => existsSync(path))
  await docker.host.removeShare(share)
  t.is(groups().length, 1, 'one with containers stays')
  for (const { name } of [...ours, other]) await docker.host.remove(name)
  await docker.host.removeShare(share)
  await docker.host.removeShare(`${share}0`)
  t.deepEqual(groups(), [])
})

test('a name that the engine keeps for no container is waited for with pauses, and not for ever', async t => {
  let [refusals, freeAfter] = [0, 3]
  const server = createHttpServer((request, response) => {
    if (request.method === 'GET') return response.writeHead(404).end('{}')
    if (refusals === freeAfter) return response.writeHead(201).end('{"Id":"c1"}')
    refusals++
    response.writeHead(409).end('{}')
  })
  const address = await listening(server)
  t.teardown(() => server.close())
  const host = dockerHost({ dockerHost: address, makeRootfs: async () => null })
  const { share: _, ...spec } = docker.spec(programs.waits)
  t.is(await host.create(spec), 'c1')
  t.is(refusals, 3)
  ;[refusals, freeAfter] = [0, Number.POSITIVE_INFINITY]
  await t.throwsAsync(host.create(spec), { message: /^The name .* is taken by a container that nobody sees\.$/ })
  t.true(refusals > 3 && refusals < 250, `${refusals} requests`)
})
