import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { bridgePrefix } from '../../../activities/containers/network-names.ts'
import { iptablesFirewall, namesOf, openFirewall } from '../../../activities/firewall/iptables.ts'
import {
  type Admission,
  admissionRules,
  type Firewall,
  firewallRules,
  nameServers,
} from '../../../activities/firewall/port.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'
import { namespace } from '../../kit/servers/network-namespace.ts'

const [one, two] = [namesOf('one'), namesOf('two')]
const nothing = { resolvers: [] }
/** In the order of the jumps. */
const bridgesOf = ({ bridges, builds }: typeof one) => [builds.bridges, bridges]

test('answers come first, then limits, admissions, name servers and the proxy of builds, then everything private is refused', t => {
  const { input, forward } = firewallRules({
    resolvers: ['10.255.255.53'],
    builds: { bridges: 'bbone+', proxies: [{ address: '10.1.1.1', port: 3128 }] },
    admitted: 'X-ADMITTED',
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
  const mail = '-p tcp --dport 25 -j REJECT --reject-with tcp-reset'
  t.deepEqual(forward.slice(0, 7), [answers, mail, '-p tcp -j X-ADMITTED', ...open])
  t.is(forward[7], '-d 169.254.0.0/16 -p tcp -j REJECT --reject-with tcp-reset')
  for (const range of ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']) {
    t.true(forward.includes(`-d ${range} -j REJECT --reject-with icmp-port-unreachable`), range)
  }
})

test('name servers are read from a resolv.conf, without local ones', t => {
  const text =
    '# x\nnameserver 127.0.0.53\nnameserver 192.168.1.1\n  nameserver 8.8.8.8  \nnameserver fd00::1\nsearch a b\n'
  t.deepEqual(nameServers(text), ['192.168.1.1', '8.8.8.8'])
})

test('the rules follow the addresses of the proxies of builds', async t => {
  demandRoot()
  const net = await namespace(t)
  let address = '10.1.1.1'
  const proxies = () => [{ address, port: 3128 }]
  const firewall = iptablesFirewall({ ...namesOf('one'), proxies, resolvers: [], through: net.through })
  await firewall.apply()
  const opens = async (wanted: string) => (await net.rules()).filter(rule => rule.includes(`-d ${wanted}/32`)).length
  t.deepEqual([await opens('10.1.1.1'), await opens('10.1.1.2')], [4, 0])
  t.deepEqual((await firewall.apply()).repaired, [])
  address = '10.1.1.2'
  t.deepEqual((await firewall.apply()).repaired, [], 'nobody had changed them')
  t.deepEqual([await opens('10.1.1.1'), await opens('10.1.1.2')], [0, 4])
  t.deepEqual((await firewall.apply()).repaired, [])
  address = '10.1.1.3'
  await net.run('iptables', '-F', `${namesOf('one').name}-INPUT`)
  t.deepEqual((await firewall.apply()).repaired, [`the rules of ${namesOf('one').name}-INPUT`])
  t.deepEqual([await opens('10.1.1.2'), await opens('10.1.1.3')], [0, 4])
})

test('connections of one container are counted where the kernel can', t => {
  const { input, forward } = firewallRules({ ...nothing, ...one, admitted: 'X', counter: 'btone' })
  const limits = forward.filter(rule => /connlimit|hashlimit/.test(rule))
  t.deepEqual(limits, [
    '-m connlimit --connlimit-above 2000 --connlimit-saddr --connlimit-mask 32 -j REJECT',
    '-m hashlimit --hashlimit-above 200/sec --hashlimit-burst 1000 --hashlimit-mode srcip --hashlimit-name btone -j REJECT',
  ])
  const ofBuilds = limits.map(rule => `-i ${one.builds.bridges} ${rule}`)
  t.deepEqual(input.slice(1, 3), ofBuilds, 'builds reach their proxy, and the cache of packages, on this machine')
  t.true(forward.indexOf('-p tcp -j X') > forward.indexOf(limits.at(-1)!), 'connections to databases count too')
})

const bridge = `${one.bridges.slice(0, -1)}00000001`
const admission: Admission = { bridge, address: '10.192.7.2', port: 20_001 }

test('admissions open one port of one address to its own bridge, each once and in one order', t => {
  const other = { ...admission, address: '10.192.7.1' }
  const rules = ['10.192.7.1', '10.192.7.2'].map(
    address => `-i ${bridge} -o ${bridge} -d ${address} -p tcp --dport 20001 -j ACCEPT`,
  )
  t.deepEqual(admissionRules([admission, other, { ...admission }]), rules)
  t.deepEqual(admissionRules([other, admission]), rules)
  t.deepEqual(admissionRules([]), [])
})

test('anything but a bridge, address or port is refused, and never reaches the rules', t => {
  const wrong: Partial<Record<keyof Admission, unknown>>[] = [
    ...['', 'bt+', 'bt one', '-j', 'a\n-F', 'b'.repeat(16), '!bt', 'bt"'].map(bridge => ({ bridge })),
    ...['', '10.0.0.0/8', '10.0.0.1 -j ACCEPT', '10.0.0.256', '010.0.0.1', '10.1', 'fd00::1', '10.0.0.1\n'].map(
      address => ({ address }),
    ),
    ...[0, -1, 65_536, 1.5, Number.NaN, '22', '1:65535', null].map(port => ({ port })),
  ]
  for (const one of wrong) {
    const given = [admission, { ...admission, ...one } as Admission]
    t.throws(() => admissionRules(given), { instanceOf: RangeError }, JSON.stringify(one))
  }
})

test('applying is idempotent and replaces existing rules, and removing leaves nothing', async t => {
  demandRoot()
  const net = await namespace(t)
  const before = await net.rules()
  const resolvers = ['10.255.255.53']
  const firewall = iptablesFirewall({
    ...namesOf('one'),
    proxies: () => [{ address: '10.1.1.1', port: 3128 }],
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
  const ways = (parent: string) => [
    ...(parent === 'INPUT'
      ? []
      : bridgesOf(one).map(bridges => `-A FORWARD ! -i ${bridges} -o ${bridges} -j ${one.name}-INWARD`)),
    ...bridgesOf(one).map(bridges => `-A ${parent} -i ${bridges} -j ${one.name}-${parent}`),
  ]
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

/** A firewall whose every call of a tool is counted. */
function counted(through: readonly string[], folder: string) {
  const calls = join(folder, 'calls')
  writeFileSync(calls, '')
  const counting = ['sh', '-c', `echo "$*" >> ${calls}; exec "$@"`, 'sh', ...through]
  const firewall = iptablesFirewall({ ...one, ...nothing, through: counting })
  return {
    firewall,
    /** The tools that were called since the last look. */
    calls() {
      const lines = readFileSync(calls, 'utf8').trim().split('\n').filter(Boolean)
      writeFileSync(calls, '')
      return lines.map(line => line.split(' ').slice(through.length).join(' '))
    },
  }
}

const admittedIn = (rules: string[]) =>
  rules.flatMap(rule =>
    rule.startsWith(`-A ${one.name}-ADMITTED `) ? [/ -d (\S+) .* --dport (\d+) /.exec(rule)!.slice(1).join(' ')] : [],
  )

test('admissions replace those of before in one commit, and an equal set calls nothing', async t => {
  demandRoot()
  const net = await namespace(t)
  const before = await net.rules()
  const { firewall, calls } = counted(net.through, ownFolder(t))
  await firewall.apply()
  const closed = await net.rules()
  calls()
  await firewall.admit([admission, { ...admission, port: 20_002 }])
  t.deepEqual(calls(), ['iptables-restore -w --noflush', 'iptables -w -S'])
  t.deepEqual(admittedIn(await net.rules()), ['10.192.7.2/32 20001', '10.192.7.2/32 20002'])
  await firewall.admit([{ ...admission, port: 20_002 }, admission])
  t.deepEqual(calls(), [])
  t.deepEqual((await firewall.apply()).repaired, [])
  await firewall.admit([{ ...admission, address: '10.192.7.9' }])
  t.deepEqual(admittedIn(await net.rules()), ['10.192.7.9/32 20001'])
  await firewall.admit([])
  t.deepEqual(await net.rules(), closed)
  await firewall.admit([admission])
  await firewall.remove()
  t.deepEqual(await net.rules(), before)
})

test('admissions that were flushed, deleted or added to by others are repaired', async t => {
  demandRoot()
  const net = await namespace(t)
  const firewall = iptablesFirewall({ ...one, ...nothing, through: net.through })
  await firewall.admit([admission])
  await firewall.apply()
  const whole = await net.rules()
  const chain = `${one.name}-ADMITTED`
  const changes = [
    [['-F', chain]],
    [['-A', chain, '-j', 'ACCEPT']],
    [['-D', chain, '1']],
    [['-F'], ['-X']],
    [
      ['-F', `${one.name}-FORWARD`],
      ['-F', chain],
      ['-X', chain],
    ],
  ]
  for (const change of changes) {
    for (const words of change) await net.run('iptables', '-w', ...words)
    t.regex((await firewall.apply()).repaired.join(), /the rules of \S+-ADMITTED/, change.join(' '))
    t.deepEqual((await net.rules()).sort(), [...whole].sort(), change.join(' '))
    t.deepEqual((await firewall.apply()).repaired, [])
  }
})

test('an empty chain of admissions that is missing is created again', async t => {
  demandRoot()
  const net = await namespace(t)
  const firewall = iptablesFirewall({ ...one, ...nothing, through: net.through })
  await firewall.apply()
  for (const words of [['-F'], ['-X']]) await net.run('iptables', '-w', ...words)
  await firewall.apply()
  t.true((await net.rules()).includes(`-N ${one.name}-ADMITTED`))
  t.deepEqual((await firewall.apply()).repaired, [])
})

test('a new process retains what the one before it admitted, until it knows better', async t => {
  demandRoot()
  const net = await namespace(t)
  const open = () => iptablesFirewall({ ...one, ...nothing, through: net.through })
  const first = open()
  await first.apply()
  await first.admit([admission])
  const whole = await net.rules()
  const second = open()
  await second.apply()
  t.deepEqual(await net.rules(), whole)
  await net.run('iptables', '-w', '-F', `${one.name}-ADMITTED`)
  await second.apply()
  t.deepEqual(await net.rules(), whole, 'and repairs it')
  await second.admit([])
  t.deepEqual(admittedIn(await net.rules()), [])
  await open().admit([admission])
  t.deepEqual(admittedIn(await net.rules()), ['10.192.7.2/32 20001'], 'before anything was applied')
})

test('admissions that could not be set are set by the next check', async t => {
  demandRoot()
  const net = await namespace(t)
  const folder = ownFolder(t)
  const broken = join(folder, 'broken')
  const through = ['sh', '-c', `[ ! -e ${broken} ] || exit 4; exec "$@"`, 'sh', ...net.through]
  const firewall = iptablesFirewall({ ...one, ...nothing, through })
  await firewall.apply()
  writeFileSync(broken, '')
  await t.throwsAsync(firewall.admit([admission]), { message: /iptables-restore/ })
  t.deepEqual(admittedIn(await net.rules()), [])
  rmSync(broken)
  t.regex((await firewall.apply()).repaired.join(), /ADMITTED/)
  t.deepEqual(admittedIn(await net.rules()), ['10.192.7.2/32 20001'])
})

/** A firewall one call of which is slow: the next one after `slow.early()` to begin, or after `slow.late()` to end. */
function delayed(through: readonly string[], folder: string) {
  const [early, late] = [join(folder, 'early'), join(folder, 'late')] as const
  const script = `rmdir ${early} 2>/dev/null && sleep 1; "$@"; code=$?; rmdir ${late} 2>/dev/null && sleep 1; exit $code`
  return {
    firewall: iptablesFirewall({ ...one, ...nothing, through: ['sh', '-c', script, 'sh', ...through] }),
    slow: { early: () => mkdirSync(early), late: () => mkdirSync(late), begun: async () => !existsSync(late) },
  }
}

test('admissions at the same time take effect in their order', async t => {
  demandRoot()
  const net = await namespace(t)
  const { firewall, slow } = delayed(net.through, ownFolder(t))
  await firewall.apply()
  slow.early()
  await Promise.all([20_001, 20_002, 20_003].map(port => firewall.admit([{ ...admission, port }])))
  t.deepEqual(admittedIn(await net.rules()), ['10.192.7.2/32 20003'])
  t.deepEqual((await firewall.apply()).repaired, [])
})

test('admissions during a check are no fault that it finds', async t => {
  demandRoot()
  const net = await namespace(t)
  const { firewall, slow } = delayed(net.through, ownFolder(t))
  await firewall.apply()
  slow.late()
  const check = firewall.apply()
  await comesTrue(slow.begun)
  await firewall.admit([admission])
  t.deepEqual((await check).repaired, [])
  t.deepEqual(admittedIn(await net.rules()), ['10.192.7.2/32 20001'])
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
    const ways = all.filter(line => / -i \S+ -j /.test(line) && line.includes(` -j ${of.name}`))
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
