import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import test from 'ava'
import { bridgeName } from '../../../activities/containers/network-names.ts'
import type { ContainerSpec } from '../../../activities/containers/port.ts'
import {
  appContainer,
  buildContainer,
  buildNetwork,
  type HostTraits,
  tenantNetwork,
} from '../../../activities/containers/spec.ts'
import { iptablesFirewall } from '../../../activities/firewall/iptables.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { demandRoot } from '../../kit/root.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

/* Who reaches the proxy of builds, asked from inside containers that are built as an application's and its build's are. */
const { host, run, clean } = realDocker()
const networks = [tenantNetwork('tenant-a', run), tenantNetwork('tenant-b', run), buildNetwork(run)] as const
const [tenant, , builds] = networks
const names = { name: `T${run.slice(-8)}`, bridges: bridgeName(tenant), resolvers: [] }
const traits: HostTraits = { id: run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null }
const proxy = createServer(socket => socket.end('proxy'))
const other = createServer(socket => socket.end('other'))
const folder = await mkdtemp(`${tmpdir()}/berth-build-network-`)
let gateway = ''
let number = 0

const release = (ownerId: string, start: string | null = null): Release => ({
  ...{ appId: `app-${ownerId}`, ownerId, hostId: run, hostAddress: '127.0.0.1', number: ++number, uid: 20_301 },
  ...{
    ramMb: 256,
    reservedMb: 256,
    cpus: 1,
    diskMb: 64,
    language: 'javascript',
    runtimeVersion: '22',
    main: null,
    start,
  },
  ...{ hostname: null, source: null, path: '', restart: true, deploymentId: null },
})
const application = (start: string) =>
  appContainer(release('tenant-a', start), { files: folder, dependencies: null }, {}, traits)
const build = (install: string, ownerId = 'tenant-a') => buildContainer(release(ownerId), folder, install, traits)
const port = (server: typeof proxy) => (server.address() as { port: number }).port

/** A command that prints the answer of an address, or the code of the refusal. */
const ask = (address: string, port: number) => {
  const words = "s.on('data', d => console.log(String(d))).on('error', e => console.log(e.code))"
  return `exec node -e "const s = require('net').connect({ host: '${address}', port: ${port}, timeout: 3000 }); ${words}.on('timeout', () => s.destroy(Object.assign(Error(), { code: 'ETIMEDOUT' })))"`
}

async function said(spec: ContainerSpec): Promise<string> {
  let output = ''
  const add = (text: string) => {
    output += text
  }
  await host.runToEnd(spec, add, AbortSignal.timeout(60_000))
  return output.trim()
}

test.before(async () => {
  await host.ensureImage('berth/node:22')
  for (const network of networks) await host.ensureNetwork(network)
  const [{ Subnet }] = (await engineFact(`/networks/${builds.name}`)).IPAM.Config
  gateway = Subnet.replace('.0/24', '.1')
  for (const server of [proxy, other]) await new Promise<void>(done => server.listen(0, gateway, done))
})

test.after.always(async () => {
  for (const server of [proxy, other]) server.close()
  await iptablesFirewall({ ...names, builds: { bridges: bridgeName(builds), proxies: [] } }).remove()
  await clean(...networks.map(({ name }) => name))
  await rm(folder, { recursive: true, force: true })
})

test.serial(
  'a build reaches the proxy of builds and nothing else of the host, an application not even that',
  async t => {
    demandRoot()
    const there = ask(gateway, port(proxy))
    t.is(await said(application(there)), 'proxy', 'without rules it is open, so that what follows can fail')
    const proxies = [{ address: gateway, port: port(proxy) }]
    await iptablesFirewall({ ...names, builds: { bridges: bridgeName(builds), proxies } }).apply()
    t.is(await said(build(there)), 'proxy')
    t.is(await said(application(there)), 'ECONNREFUSED')
    t.is(await said(build(ask(gateway, port(other)))), 'ECONNREFUSED')
    t.is(await said(build(ask('169.254.169.254', 80))), 'ECONNREFUSED')
  },
)

test.serial('builds share a network but cannot reach each other', async t => {
  const script = "require('net').createServer(s => s.end('build')).listen(4000, () => console.log('listens'))"
  const waiting = build(`exec node -e "${script}"`, 'tenant-b')
  await host.create(waiting)
  await host.start(waiting.name)
  await comesTrue(async () => (await host.logs(waiting.name, 1000))?.includes('listens'))
  const { NetworkSettings } = await engineFact(`/containers/${waiting.name}/json`)
  const address: string = NetworkSettings.Networks[builds.name].IPAddress
  t.regex(await said(build(ask(address, 4000))), /^(ETIMEDOUT|ECONNREFUSED|EHOSTUNREACH)$/)
})
