import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import test from 'ava'
import { iptablesFirewall, openFirewall } from '../../activities/firewall.iptables.ts'
import { firewallRules, nameServers, proxyAddress } from '../../activities/firewall.ts'

const run = promisify(execFile)
const name = `T${randomBytes(4).toString('hex')}`
const firewall = iptablesFirewall({
  name,
  bridges: 'brnone+',
  resolvers: ['10.255.255.53'],
  allowed: [{ address: '10.1.1.1', port: 3128 }],
})
const rules = async (tool = 'iptables'): Promise<string[]> => {
  const { stdout } = await run(tool, ['-w', '-S'])
  return stdout.split('\n').filter(line => line.includes(name))
}

test.after.always(() => firewall.remove())

test('answers come first, then name servers and what is allowed, then everything private is refused', t => {
  const { input, forward } = firewallRules({
    resolvers: ['10.255.255.53'],
    allowed: [{ address: '10.1.1.1', port: 3128 }],
  })
  const open = [
    '-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN',
    '-d 10.255.255.53 -p udp --dport 53 -j RETURN',
    '-d 10.255.255.53 -p tcp --dport 53 -j RETURN',
    '-d 10.1.1.1 -p tcp --dport 3128 -j RETURN',
  ]
  t.deepEqual(input, [
    ...open,
    '-p tcp -j REJECT --reject-with tcp-reset',
    '-j REJECT --reject-with icmp-port-unreachable',
  ])
  t.deepEqual(forward.slice(0, 4), open)
  t.is(forward[4], '-d 169.254.0.0/16 -p tcp -j REJECT --reject-with tcp-reset')
  for (const range of ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']) {
    t.true(forward.includes(`-d ${range} -j REJECT --reject-with icmp-port-unreachable`), range)
  }
})

test('name servers are read from a resolv.conf, local ones are no address for a container', t => {
  const text =
    '# x\nnameserver 127.0.0.53\nnameserver 192.168.1.1\n  nameserver 8.8.8.8  \nnameserver fd00::1\nsearch a b\n'
  t.deepEqual(nameServers(text), ['192.168.1.1', '8.8.8.8'])
})

test('a build proxy by address is let through', t => {
  t.deepEqual(proxyAddress('http://10.1.1.1:3128'), [{ address: '10.1.1.1', port: 3128 }])
  t.deepEqual(proxyAddress('https://10.1.1.1'), [{ address: '10.1.1.1', port: 443 }])
  for (const url of [null, 'http://proxy.example:3128', 'nonsense']) t.deepEqual(proxyAddress(url), [])
})

test.serial('applying is repeatable, replaces what was there, and removing leaves nothing', async t => {
  t.deepEqual(await rules(), [])
  await firewall.apply()
  const applied = await rules()
  t.is(applied.filter(line => line.startsWith(`-A INPUT -i brnone+ -j ${name}-INPUT`)).length, 1)
  t.is(applied.filter(line => line.endsWith(`-i brnone+ -j ${name}-FORWARD`)).length, 1)
  await firewall.apply()
  t.deepEqual(await rules(), applied)

  const changed = iptablesFirewall({ name, bridges: 'brnone+', resolvers: [], allowed: [] })
  await changed.apply()
  t.false((await rules()).some(line => line.includes('10.255.255.53')))

  await firewall.remove()
  await firewall.remove()
  t.deepEqual(await rules(), [])
  t.deepEqual(await rules('ip6tables'), [])
})

test.serial('a machine that cannot, or a setting that will not, is told why', async t => {
  t.like(await openFirewall('off', 'h1'), { firewall: null, notice: 'the setting HOST_FIREWALL is off' })
  const opened = await openFirewall('auto', 'h1')
  t.is(opened.firewall === null, opened.notice !== null)
  t.is(opened.firewall !== null, process.getuid?.() === 0)
})
