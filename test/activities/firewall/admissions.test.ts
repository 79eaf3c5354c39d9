import { execFileSync } from 'node:child_process'
import { connect } from 'node:net'
import test from 'ava'
import { bridgeName } from '../../../activities/containers/network-names.ts'
import type { ContainerSpec } from '../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../activities/containers/spec.ts'
import { iptablesFirewall, namesOf } from '../../../activities/firewall/iptables.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { demandRoot } from '../../kit/root.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

/* Who reaches the database of an owner, asked from inside containers in real networks. */
const docker = realDocker()
const { host, run } = docker
const [mine, others] = [tenantNetwork('owner-a', run), tenantNetwork('owner-b', run)]
const firewall = iptablesFirewall({ ...namesOf(run), resolvers: [] })
const alias = 'db-1.apps.localhost'
const [port, closedPort] = [20_001, 20_002]
const bridge = bridgeName(mine)
let gatewayOfOthers = ''
let publishedPort = 0

const echo = (port: number) =>
  `require('net').createServer(s => { s.on('error', () => {}); s.write('database'); s.pipe(s) }).listen(${port}, () => console.log('listens'))`
const database = docker.spec(`exec node -e "${echo(port)};${echo(closedPort)}"`, {
  network: mine.name,
  aliases: [alias],
})
/** Of the same owner, and not admitted. */
const neighbour = docker.spec(database.command.at(-1)!, { network: mine.name })
const addressOf = async ({ name }: ContainerSpec) => (await host.inspect(name))!.address!
const address = () => addressOf(database)

/** What a container in a network hears from an address, or the code of the refusal. */
async function ask(network: string, at: string, port: number): Promise<string> {
  const heard = "s.on('data', d => { console.log(String(d)); s.destroy() }).on('error', e => console.log(e.code))"
  const script = `const s = require('net').connect({ host: '${at}', port: ${port}, timeout: 3000 }); ${heard}.on('timeout', () => s.destroy(Object.assign(Error(), { code: 'ETIMEDOUT' })))`
  return said(docker.spec(`exec node -e "${script}"`, { network }))
}

async function said(spec: ContainerSpec): Promise<string> {
  let output = ''
  const add = (text: string) => {
    output += text
  }
  await host.runToEnd(spec, add, AbortSignal.timeout(60_000))
  return output.trim()
}

const admitted = async () => [{ bridge, address: await address(), port }]

test.before(async () => {
  await docker.prepare()
  for (const network of [mine, others]) await host.ensureNetwork(network)
  const [{ Subnet }] = (await engineFact(`/networks/${others.name}`)).IPAM.Config
  gatewayOfOthers = Subnet.replace('.0/24', '.1')
  // Where the other owner's containers would reach it, if they could.
  database.publish = { port, address: gatewayOfOthers }
  for (const spec of [database, neighbour]) {
    await host.create(spec)
    await host.start(spec.name)
    await comesTrue(async () => (await host.logs(spec.name, 1000)) === 'listens\nlistens\n')
  }
  publishedPort = (await host.inspect(database.name))!.hostPort!
})

test.after.always(async () => {
  await firewall.remove()
  await docker.clean(mine.name, others.name)
})

test.serial('without an admission no container reaches the database of its owner', async t => {
  demandRoot()
  t.is(await ask(mine.name, alias, port), 'ETIMEDOUT', 'by the engine, which separates containers')
  await firewall.apply()
  t.is(await ask(mine.name, alias, port), 'ECONNREFUSED')
})

test.serial('an admission opens one port of the database to the containers of its owner', async t => {
  demandRoot()
  await firewall.apply()
  await firewall.admit(await admitted())
  t.is(await ask(mine.name, alias, port), 'database')
  t.is(await ask(mine.name, await address(), port), 'database')
  t.is(await ask(mine.name, alias, closedPort), 'ECONNREFUSED')
  t.is(await ask(mine.name, await addressOf(neighbour), port), 'ECONNREFUSED', 'a container next to it')
  t.deepEqual((await firewall.apply()).repaired, [])
  t.is(await ask(mine.name, alias, port), 'database', 'after a check too')
})

test.serial('other owners reach it by no address and no name, also not by its published port', async t => {
  demandRoot()
  await firewall.apply()
  await firewall.admit(await admitted())
  t.is(await ask(others.name, await address(), port), 'ECONNREFUSED')
  t.regex(await ask(others.name, alias, port), /^E(NOTFOUND|AI_AGAIN|TIMEDOUT)$/, 'the name leads nowhere')
  t.regex(await ask(others.name, gatewayOfOthers, publishedPort), /^(ECONNREFUSED|ETIMEDOUT)$/)
  t.is(await heardHere(gatewayOfOthers, publishedPort), 'database', 'the machine itself does')
})

test.serial('an admission of another owner opens nothing here', async t => {
  demandRoot()
  await firewall.apply()
  await firewall.admit([{ ...(await admitted())[0]!, bridge: bridgeName(others) }])
  for (const { name } of [mine, others]) t.is(await ask(name, await address(), port), 'ECONNREFUSED', name)
})

test.serial('an admission that was removed is closed to new connections, and open ones go on', async t => {
  demandRoot()
  await firewall.apply()
  await firewall.admit(await admitted())
  const ping = "setInterval(() => s.write('.'), 100)"
  const script = `const s = require('net').connect(${port}, '${alias}'); s.on('data', d => console.log(String(d))); ${ping}`
  const talking = docker.spec(`exec node -e "${script}"`, { network: mine.name })
  await host.create(talking)
  await host.start(talking.name)
  const printed = async () => (await host.logs(talking.name, 100_000))!.length
  await comesTrue(async () => (await printed()) > 20)
  await firewall.admit([])
  t.is(await ask(mine.name, alias, port), 'ECONNREFUSED')
  const before = await printed()
  await comesTrue(async () => (await printed()) > before + 20)
  await host.remove(talking.name)
})

test.serial('connections to a database count towards the limits of the container that opens them', async t => {
  demandRoot()
  await firewall.apply()
  await firewall.admit(await admitted())
  // New ones without end, until the first is refused.
  const one = `const one = () => { const s = require('net').connect(${port}, '${await address()}'); s.on('connect', () => { s.destroy(); open++; one() }).on('error', e => { console.log(e.code, open >= 500); process.exit() }) }`
  const script = `let open = 0; ${one}; for (let n = 0; n < 50; n++) one()`
  t.is(await said(docker.spec(`exec node -e "${script}"`, { network: mine.name })), 'ECONNREFUSED true')
})

test.serial('admissions leave what the limits have counted', async t => {
  demandRoot()
  await firewall.apply()
  await firewall.admit(await admitted())
  t.is(await ask(mine.name, alias, port), 'database')
  const packets = () => {
    const listing = execFileSync('iptables', ['-w', '-v', '-S', `${namesOf(run).name}-FORWARD`], { encoding: 'utf8' })
    return [...listing.matchAll(/ -c (\d+) \d+/g)].map(([, count]) => Number(count))
  }
  const before = packets()
  t.true(before[0]! > 0)
  await firewall.admit([])
  const after = packets()
  t.is(after.length, before.length)
  t.true(
    after.every((count, n) => count >= before[n]!),
    `${before} then ${after}`,
  )
})

function heardHere(host: string, port: number): Promise<string> {
  return new Promise((done, failed) => {
    const socket = connect({ host, port, timeout: 10_000 })
    socket.once('data', data => done(String(data)) ?? socket.destroy()).once('error', failed)
    socket.once('timeout', () => socket.destroy(new Error('no answer')))
  })
}
