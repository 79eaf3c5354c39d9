import test from 'ava'
import { isContainerBridge, parseRoutes } from '../../../activities/containers/bridge-subnets.ts'
import { type ProxyAddressesOptions, proxyAddresses } from '../../../activities/firewall/proxy-addresses.ts'

/** The proxies of builds, on a machine without containers whose names have these addresses. */
function proxiesOf(
  urls: { http?: string | null; https?: string | null },
  answers: Record<string, string[]>,
  own: ProxyAddressesOptions & { isOwnProxy?: boolean } = {},
) {
  const { isOwnProxy = false, ...options } = own
  const resolve = async (name: string) => {
    if (!answers[name]) throw new Error('unknown')
    return answers[name].map(address => ({ address }))
  }
  const proxy = { http: null, https: null, none: null, ...urls }
  const proxies = proxyAddresses({ proxy, isOwnProxy }, { resolve, subnets: async () => [], ...options })
  const addresses = () => proxies.recent().map(({ address }) => address)
  return { ...proxies, addresses }
}

test('proxies of builds are allowed by their addresses, and by those of their names', async t => {
  const answers = { 'proxy.example': ['10.1.1.3', '127.0.0.1', '10.1.1.2'] }
  const known = async (http: string | null, https: string | null = http) => {
    const proxies = proxiesOf({ http, https }, answers)
    await proxies.refresh()
    return proxies.recent()
  }
  t.deepEqual(await known('http://10.1.1.1:3128'), [{ address: '10.1.1.1', port: 3128 }])
  t.deepEqual(await known('https://10.1.1.1'), [{ address: '10.1.1.1', port: 443 }])
  t.deepEqual(await known('http://10.1.1.1', 'http://proxy.example:3128'), [
    { address: '10.1.1.1', port: 80 },
    { address: '10.1.1.2', port: 3128 },
    { address: '10.1.1.3', port: 3128 },
  ])
  for (const url of [null, 'http://missing.example:3128', 'nonsense', 'http://127.0.0.1:1', 'http://10.1.1.1:80#@x'])
    t.deepEqual(await known(url), [])
  t.deepEqual(proxyAddresses({ proxy: null, isOwnProxy: false }).recent(), [])
})

test('a name of a proxy that has other addresses later has all of them open for an hour, the 16 newest at most', async t => {
  let minutes = 0
  const answers = { 'proxy.example': ['10.1.1.2'] }
  const evicted: string[] = []
  const { refresh, addresses } = proxiesOf({ https: 'http://proxy.example:1' }, answers, {
    now: () => minutes * 60_000,
    onEvicted: old => evicted.push(...old),
  })
  const answer = async (after: number, ...now: string[]) => {
    minutes += after
    answers['proxy.example'] = now
    await refresh()
  }
  await answer(0, '10.1.1.2')
  await answer(50, '10.1.1.1')
  t.deepEqual(addresses(), ['10.1.1.1', '10.1.1.2'])
  minutes += 11
  t.deepEqual(addresses(), ['10.1.1.1'], 'an hour after it was last seen')
  await answer(49, '10.1.1.1')
  await answer(59)
  t.deepEqual(addresses(), ['10.1.1.1'], 'seen again')
  t.deepEqual(evicted, [])
  for (let n = 10; n < 50; n++) await answer(1, `10.1.2.${n}`)
  t.deepEqual(
    addresses(),
    Array.from({ length: 16 }, (_, n) => `10.1.2.${n + 34}`),
  )
  t.is(evicted.length, 24)
  t.deepEqual(evicted.slice(0, 1), ['10.1.2.10'])
  const many = Array.from({ length: 20 }, (_, n) => `10.1.3.${n + 10}`)
  await answer(1, ...many)
  const before = addresses()
  t.is(before.length, 16)
  await answer(1, ...many.toReversed())
  t.deepEqual(addresses(), before, 'the same ones of an answer with too many')
  t.is(evicted.length, 24 + 16 + 4, 'and they are reported once')
})

test('a name opens neither this machine, its containers, link-local nor reserved addresses, an address in BUILD_PROXY does', async t => {
  const machine = ['127.0.0.1', '0.0.0.0', '0.1.2.3', '169.254.169.254', '224.0.0.1', '240.0.0.1', '255.255.255.255']
  const containers = ['172.17.0.1', '172.17.3.4', '10.198.57.1']
  const subnets = async () => ['172.17.0.0/16', '10.198.57.0/24']
  const answers = { 'proxy.example': [...machine, ...containers, '10.198.58.1', 'fd00::1'] }
  for (const isOwnProxy of [false, true]) {
    const named = proxiesOf({ http: 'http://proxy.example:80' }, answers, { subnets, isOwnProxy })
    await named.refresh()
    t.deepEqual(named.addresses(), ['10.198.58.1'])
  }
  for (const address of [...machine, ...containers].slice(1)) {
    const open = async (isOwnProxy: boolean) => {
      const literal = proxiesOf({ http: `http://${address}:80` }, {}, { subnets, isOwnProxy })
      await literal.refresh()
      return literal.addresses()
    }
    t.deepEqual(await open(false), [], address)
    t.deepEqual(await open(true), [address])
  }
  const late: { subnets: string[] } = { subnets: [] }
  const later = proxiesOf({ http: 'http://proxy.example:80' }, answers, { subnets: async () => late.subnets })
  await later.refresh()
  t.is(later.addresses().length, 4)
  late.subnets = await subnets()
  await later.refresh()
  t.deepEqual(later.addresses(), ['10.198.58.1'], 'networks that are created later')
})

test('networks of containers are those of bridges of engines, not of operators', t => {
  const line = (device: string, network: string, mask = '00FFFFFF') =>
    [device, network, '00000000', '0001', '0', '0', '0', mask, '0', '0', '0'].join('\t')
  const bridges = ['docker0', 'br-0123456789ab', 'btrwd4uugm2gacp', 'bbrwd4uugm2gacp', 'podman1']
  const others = ['eth0', 'br0', 'br-lan', 'vmbr0', 'bond0']
  const table = [
    'Iface\t...',
    line('eth0', '00000000', '00000000'),
    ...[...bridges, ...others].map(name => line(name, '0039C60A')),
    '',
  ]
  const routes = parseRoutes(table.join('\n'))
  t.is(routes.length, bridges.length + others.length)
  t.deepEqual(routes[0], { device: 'docker0', subnet: '10.198.57.0/24' })
  t.deepEqual(
    routes.filter(isContainerBridge).map(({ device }) => device),
    bridges,
  )
})

test('builds do not use a proxy of the environment without an address, until a later look-up has one', async t => {
  const answers: Record<string, string[]> = {}
  const changes: string[][] = []
  const https = 'http://proxy.example:3128'
  const proxies = proxiesOf({ https, http: 'http://10.1.1.1:80' }, answers, {
    onChange: () => changes.push(proxies.unreachable()),
  })
  t.deepEqual(await proxies.forBuilds(), { http: 'http://10.1.1.1:80', https: null, none: null })
  t.deepEqual(changes, [['proxy.example']])
  answers['proxy.example'] = ['169.254.169.254']
  const alone = proxiesOf({ https }, answers)
  t.is(await alone.forBuilds(), null)
  answers['proxy.example'] = ['10.1.1.2']
  t.is((await alone.forBuilds())?.https, https)
  t.is((await proxies.forBuilds())?.https, https)
  t.deepEqual(changes, [['proxy.example'], []])
  const own = proxiesOf({ https: 'http://missing.example:1' }, answers, { isOwnProxy: true })
  t.is((await own.forBuilds())?.https, 'http://missing.example:1', 'BUILD_PROXY is used in any case')
  await own.refresh()
  t.deepEqual(own.unreachable(), ['missing.example'])
})
