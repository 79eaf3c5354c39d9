import test from 'ava'
import { bridgePrefix } from '../../../activities/containers/network-names.ts'
import { iptablesFirewall, namesOf, openFirewall } from '../../../activities/firewall/iptables.ts'
import { type Firewall, firewallRules, nameServers, proxyAddress } from '../../../activities/firewall/port.ts'
import { demandRoot } from '../../kit/root.ts'
import { namespace } from '../../kit/servers/network-namespace.ts'

const [one, two] = [namesOf('one'), namesOf('two')]
const nothing = { resolvers: [] }
/** In the order of the jumps. */
const bridgesOf = ({ bridges, builds }: typeof one) => [builds.bridges, bridges]

test('answers come first, then name servers and the proxy of builds, then everything private is refused', t => {
  const { input, forward } = firewallRules({
    resolvers: ['10.255.255.53'],
    builds: { bridges: 'bbone+', proxies: [{ address: '10.1.1.1', port: 3128 }] },
    counter: null,
  })
  const answers = '-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN'
  const open = [
    '-d 10.255.255.53 -p udp --dport 53 -j RETURN',
    '-d 10.255.255.53 -p tcp --dport 53 -j RETURN',
    '-i bbone+ -d 10.1.1.1 -p tcp --dport 3128 -j RETURN',
    '-d 10.1.1.1 -p tcp --dport 3128 -j REJECT --reject-with tcp-reset',
  ]
  t.deepEqual(input, [
    answers,
    ...open,
    '-p tcp -j REJECT --reject-with tcp-reset',
    '-j REJECT --reject-with icmp-port-unreachable',
  ])
  t.deepEqual(forward.slice(0, 6), [answers, '-p tcp --dport 25 -j REJECT --reject-with tcp-reset', ...open])
  t.is(forward[6], '-d 169.254.0.0/16 -p tcp -j REJECT --reject-with tcp-reset')
  for (const range of ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']) {
    t.true(forward.includes(`-d ${range} -j REJECT --reject-with icmp-port-unreachable`), range)
  }
})

test('name servers are read from a resolv.conf, without local ones', t => {
  const text =
    '# x\nnameserver 127.0.0.53\nnameserver 192.168.1.1\n  nameserver 8.8.8.8  \nnameserver fd00::1\nsearch a b\n'
  t.deepEqual(nameServers(text), ['192.168.1.1', '8.8.8.8'])
})

test('a build proxy with an address is allowed', t => {
  t.deepEqual(proxyAddress('http://10.1.1.1:3128'), [{ address: '10.1.1.1', port: 3128 }])
  t.deepEqual(proxyAddress('https://10.1.1.1'), [{ address: '10.1.1.1', port: 443 }])
  for (const url of [null, 'http://proxy.example:3128', 'nonsense']) t.deepEqual(proxyAddress(url), [])
})

test('connections of one container are counted where the kernel can', t => {
  const { input, forward } = firewallRules({ ...nothing, ...one, counter: 'btone' })
  const limits = forward.filter(rule => /connlimit|hashlimit/.test(rule))
  t.deepEqual(limits, [
    '-m connlimit --connlimit-above 2000 --connlimit-saddr --connlimit-mask 32 -j REJECT',
    '-m hashlimit --hashlimit-above 200/sec --hashlimit-burst 1000 --hashlimit-mode srcip --hashlimit-name btone -j REJECT',
  ])
  t.false(input.some(rule => /connlimit|hashlimit/.test(rule)))
})

test('applying is idempotent and replaces existing rules, and removing leaves nothing', async t => {
  demandRoot()
  const net = await namespace(t)
  const before = await net.rules()
  const resolvers = ['10.255.255.53']
  const firewall = iptablesFirewall({
    ...namesOf('one', [{ address: '10.1.1.1', port: 3128 }]),
    resolvers,
    through: net.through,
  })
  t.true((await firewall.apply()).repaired.length > 0)
  const applied = await net.rules()
  for (const bridges of bridgesOf(one))
    for (const parent of ['INPUT', 'FORWARD'])
      t.is(applied.filter(line => line === `-A ${parent} -i ${bridges} -j ${one.name}-${parent}`).length, 1)
  t.is((await net.rules('ip6tables')).filter(line => line.includes(one.name)).length, 8)
  t.deepEqual((await firewall.apply()).repaired, [])
  t.deepEqual(await net.rules(), applied)

  await iptablesFirewall({ ...one, ...nothing, through: net.through }).apply()
  t.false((await net.rules()).some(line => line.includes('10.255.255.53')))

  await firewall.remove()
  await firewall.remove()
  t.deepEqual(await net.rules(), before)
  t.false((await net.rules('ip6tables')).some(line => line.includes(one.name)))
})

test('rules that were flushed, deleted, changed or preceded by others are repaired', async t => {
  demandRoot()
  const net = await namespace(t)
  const firewall = iptablesFirewall({ ...one, ...nothing, through: net.through })
  await firewall.apply()
  const whole = await net.rules()
  const ways = (parent: string) => bridgesOf(one).map(bridges => `-A ${parent} -i ${bridges} -j ${one.name}-${parent}`)
  const repairs: [string[], RegExp][] = [
    [['-F'], /rules of .*-INPUT.*from INPUT.*rules of .*-FORWARD.*from FORWARD/],
    [['-F', `${one.name}-FORWARD`], /^the rules of \S+-FORWARD$/],
    [['-D', `${one.name}-FORWARD`, '2'], /^the rules of \S+-FORWARD$/],
    [['-I', `${one.name}-INPUT`, '-j', 'ACCEPT'], /^the rules of \S+-INPUT$/],
    [['-D', 'INPUT', '1'], /^the jumps from INPUT/],
  ]
  for (const [change, said] of repairs) {
    await net.run('iptables', '-w', ...change)
    t.regex((await firewall.apply()).repaired.join(', '), said, change.join(' '))
    t.deepEqual(await net.rules(), whole, change.join(' '))
    t.deepEqual((await firewall.apply()).repaired, [])
  }
  for (const parent of ['INPUT', 'FORWARD']) {
    await net.run('iptables', '-w', '-I', parent, '1', '-j', 'ACCEPT')
    t.regex((await firewall.apply()).repaired.join(), new RegExp(`^the jumps from ${parent}`))
    const rules = (await net.rules()).filter(line => line.startsWith(`-A ${parent} `))
    t.deepEqual(rules, [...ways(parent), `-A ${parent} -j ACCEPT`])
  }
})

test("the engine's own chain is used as long as the kernel's jumps to it first", async t => {
  demandRoot()
  const net = await namespace(t)
  const firewall = iptablesFirewall({ ...one, ...nothing, through: net.through })
  const through = (parent: string) => bridgesOf(one).map(bridges => `-A ${parent} -i ${bridges} -j ${one.name}-FORWARD`)
  const jumps = async () => (await net.rules()).filter(line => line.endsWith(`-j ${one.name}-FORWARD`))
  await firewall.apply()
  await net.run('iptables', '-w', '-N', 'DOCKER-USER')
  await net.run('iptables', '-w', '-A', 'DOCKER-USER', '-j', 'RETURN')
  t.deepEqual((await firewall.apply()).repaired, [], 'nobody comes by there yet')
  await net.run('iptables', '-w', '-I', 'FORWARD', '1', '-j', 'DOCKER-USER')
  await firewall.apply()
  t.deepEqual(await jumps(), through('DOCKER-USER'))
  await net.run('iptables', '-w', '-F', 'FORWARD')
  await firewall.apply()
  t.deepEqual(await jumps(), through('FORWARD'))
})

test('two installations on one machine do not touch each other', async t => {
  demandRoot()
  const net = await namespace(t)
  const [first, second] = [one, two].map(of => iptablesFirewall({ ...of, ...nothing, through: net.through })) as [
    Firewall,
    Firewall,
  ]
  await first.apply()
  const alone = await net.rules()
  await second.apply()
  for (const of of [first, second]) t.deepEqual((await of.apply()).repaired, [], 'both stand first enough')
  const all = await net.rules()
  for (const of of [one, two]) {
    const ways = all.filter(line => line.includes(` -j ${of.name}`))
    t.is(ways.length, 4)
    t.false(bridgePrefix(of === one ? 'two' : 'one').startsWith(of.bridges.slice(0, -1)))
    for (const bridges of bridgesOf(of)) t.is(ways.filter(line => line.includes(` -i ${bridges} `)).length, 2)
  }
  await second.remove()
  t.deepEqual(await net.rules(), alone)
  t.deepEqual((await first.apply()).repaired, [])
})

test('rules from before bridges contained their host are replaced; older bridges are matched by name', async t => {
  demandRoot()
  const net = await namespace(t)
  const chain = `${one.name}-INPUT`
  await net.run('iptables', '-w', '-N', chain)
  await net.run('iptables', '-w', '-A', 'INPUT', '-i', 'berth+', '-j', chain)
  let older: string[] | null = null
  const olderBridges = async () => older ?? Promise.reject(new Error('the engine is away'))
  const firewall = iptablesFirewall({ ...one, ...nothing, olderBridges, through: net.through })
  const ways = async () =>
    (await net.rules()).flatMap(line => (line.endsWith(`-j ${chain}`) ? [/-i (\S+)/.exec(line)?.[1]] : [])).sort()
  await firewall.apply()
  t.deepEqual(await ways(), ['berth+', ...bridgesOf(one)].sort(), 'what is not known is not taken away')
  older = ['berth0123456789']
  await firewall.apply()
  t.deepEqual(await ways(), ['berth0123456789', ...bridgesOf(one)].sort())
  older = []
  await firewall.apply()
  t.deepEqual(await ways(), bridgesOf(one))
})

test.serial('a machine or setting without a firewall reports the reason', async t => {
  t.like(await openFirewall('off', 'h1'), { firewall: null, notice: 'the setting HOST_FIREWALL is off' })
  const opened = await openFirewall('auto', 'h1')
  t.is(opened.firewall === null, opened.notice !== null)
  t.is(opened.firewall !== null, process.getuid?.() === 0)
})
