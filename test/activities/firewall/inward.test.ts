import { spawn } from 'node:child_process'
import { once } from 'node:events'
import test, { type ExecutionContext } from 'ava'
import { iptablesFirewall, namesOf } from '../../../activities/firewall/iptables.ts'
import { inwardRules } from '../../../activities/firewall/port.ts'
import { networkLimits } from '../../../policy/hosts/network-limits.ts'
import { demandRoot } from '../../kit/root.ts'
import { namespace } from '../../kit/servers/network-namespace.ts'

const names = namesOf('one')
const bridge = `${names.bridges.slice(0, -1)}00000001`
const [inside, port] = ['10.192.7.2', 20_001]

/** A machine between a database behind one of our bridges, and addresses outside. */
async function machines(t: ExecutionContext) {
  demandRoot()
  const [outer, router, inner] = await Promise.all([namespace(t), namespace(t), namespace(t)])
  const link = async (from: typeof outer, name: string) =>
    from.run('ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', name, 'netns', String(router.pid))
  await link(outer, 'wan')
  await link(inner, bridge)
  const up = async (net: typeof outer, device: string, ...addresses: string[]) => {
    for (const address of addresses) await net.run('ip', 'address', 'add', address, 'dev', device)
    for (const one of ['lo', device]) await net.run('ip', 'link', 'set', one, 'up')
  }
  await up(outer, 'eth0', '198.51.100.2/29', '198.51.100.3/29')
  await up(router, 'wan', '198.51.100.1/29')
  await up(router, bridge, '10.192.7.1/24')
  await up(inner, 'eth0', `${inside}/24`)
  await outer.run('ip', 'route', 'add', 'default', 'via', '198.51.100.1')
  await inner.run('ip', 'route', 'add', 'default', 'via', '10.192.7.1')
  await router.run('sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward')
  const serve = `require('net').createServer(s => s.on('error', () => {}).write('.')).listen(${port})`
  const server = spawn('nsenter', [`--net=/proc/${inner.pid}/ns/net`, process.execPath, '-e', serve], {
    stdio: 'ignore',
  })
  t.teardown(async () => {
    server.kill('SIGKILL')
    await once(server, 'exit')
  })
  return { outer, router, inner }
}

/** Opens connections from an address and keeps them, until one is refused or there are so many; prints how many there are, and why it ended. */
const opening = (from: string, most: number) => `
  let open = 0, over = false
  const end = why => { if (!over) { over = true; console.log(open, why); process.exit() } }
  const one = tries => {
    const s = require('net').connect({ host: '${inside}', port: ${port}, localAddress: '${from}' })
    s.on('data', () => { if (++open >= ${most}) end('enough'); else one(0) })
    s.on('error', ({ code }) => open === 0 && tries < 200 ? setTimeout(one, 50, tries + 1) : end(code))
  }
  one(0)`

test('an outside address opens no more connections to databases than its share, and takes nothing from another', async t => {
  t.timeout(150_000)
  const { outer, router } = await machines(t)
  const firewall = iptablesFirewall({ ...names, resolvers: [], through: router.through })
  await firewall.apply()
  const { openConnections, newAtOnce } = networkLimits.inward
  const greedy = outer.run('timeout', '90', 'node', '-e', opening('198.51.100.2', 3000))
  const [open, why] = (await greedy).stdout.trim().split(' ')
  t.is(why, 'ECONNREFUSED')
  // Which of the two limits comes first depends on how fast the machine is.
  t.true(Number(open) >= newAtOnce && Number(open) <= openConnections + 1, open)
  const other = await outer.run('timeout', '60', 'node', '-e', opening('198.51.100.3', 100))
  t.is(other.stdout.trim(), '100 enough')
  t.deepEqual((await firewall.apply()).repaired, [], 'it is as the firewall wants it')
  await firewall.remove()
  t.deepEqual(
    (await router.rules()).filter(rule => rule.includes('BERTH')),
    [],
  )
})

test('a kernel that cannot count lets everything in, and what has been let in goes on', t => {
  t.deepEqual(inwardRules(null), [])
  t.regex(inwardRules('bt')[0]!, /ESTABLISHED,RELATED -j RETURN$/)
})
