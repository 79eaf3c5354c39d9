import { lookup } from 'node:dns/promises'
import { BlockList, isIPv4 } from 'node:net'
import { isLoopbackIPv4 } from '../../lib/addresses.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import type { BuildProxy, BuildSettings } from '../../policy/hosts/build-settings.ts'
import { proxyEndpoint } from '../../policy/hosts/proxy-address.ts'
import { containerSubnets } from '../containers/bridge-subnets.ts'

interface ProxyAddress {
  address: string
  port: number
}

export interface ProxyAddresses {
  /** Looks the names up. Resolves after 5 s at the latest; a failure retains what is known. */
  refresh(): Promise<void>
  /** IPv4 addresses that the proxies of builds had within the last hour; starts another look-up when the last one was a minute ago. */
  recent(): ProxyAddress[]
  /** The proxy of a build that begins now: without those of the service's environment that have no address. Looks up names without one again. */
  forBuilds(): Promise<BuildProxy | null>
  /** Names and addresses of the proxies that have no address that builds may reach. */
  unreachable(): string[]
}

type Resolve = (name: string) => Promise<{ address: string }[]>

export interface ProxyAddressesOptions {
  resolve?: Resolve
  /** Networks of containers on this machine, as `10.1.2.0/24`. */
  subnets?: () => Promise<string[]>
  /** Milliseconds. */
  now?: () => number
  /** Called when `unreachable` has changed. */
  onChange?: () => void
  /** Called with addresses that are no longer open because there are newer ones. */
  onEvicted?: (addresses: string[]) => void
}

const systemResolve: Resolve = name => lookup(name, { family: 4, all: true })
const refreshMs = 60_000
const lookupMs = 5000
/** Max addresses that are opened for a name whose answers rotate. */
const maxAddresses = 16
/** What a name no longer stands for is closed after this. */
const forgetMs = 3_600_000

/** What no name opens, regardless of who answers for it: this machine, link-local addresses (cloud metadata), multicast and reserved ones. */
const neverByName = new BlockList()
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 3],
] as const)
  neverByName.addSubnet(network, bits)

/** Addresses of the proxies of builds, which the firewall opens to builds even if they are private. */
export function proxyAddresses(
  { proxy, isOwnProxy }: Pick<BuildSettings, 'proxy' | 'isOwnProxy'>,
  options: ProxyAddressesOptions = {},
): ProxyAddresses {
  const { resolve = systemResolve, subnets = containerSubnets, now = () => performance.now() } = options
  const { onChange = () => {}, onEvicted = () => {} } = options
  const endpoints = [proxy?.http, proxy?.https].flatMap(url => (url ? (proxyEndpoint(url) ?? []) : []))
  const names = [...new Set(endpoints.map(({ hostname }) => hostname).filter(name => !isIPv4(name)))]
  /** When each address of a name was last seen. */
  const seen = new Map(names.map(name => [name, new Map<string, number>()]))
  let ofContainers = new BlockList()
  let refreshedAt = Number.NEGATIVE_INFINITY
  let reported = ''
  let lastEvicted: string[] = []

  const mayOpen = (address: string) => !neverByName.check(address) && !ofContainers.check(address)

  function addressesOf(name: string): string[] {
    // An address in BUILD_PROXY is what the operator means; one in the environment was meant for the service.
    if (isIPv4(name)) return (isOwnProxy ? !isLoopbackIPv4(name) : mayOpen(name)) ? [name] : []
    const fresh = [...(seen.get(name) ?? [])].filter(([, at]) => now() - at <= forgetMs)
    return fresh.map(([address]) => address).filter(mayOpen)
  }

  const isReachable = (url: string) => addressesOf(proxyEndpoint(url)?.hostname ?? '').length > 0
  const unreachable = () =>
    [...new Set(endpoints.map(({ hostname }) => hostname))].filter(name => addressesOf(name).length === 0)

  async function look(): Promise<void> {
    refreshedAt = now()
    ofContainers = await subnets().then(blockList, () => ofContainers)
    await Promise.all(
      names.map(async name => {
        for (const { address } of await resolve(name).catch(() => []))
          if (isIPv4(address) && mayOpen(address)) seen.get(name)?.set(address, now())
      }),
    )
    forget()
    const current = unreachable().join()
    if (current !== reported) onChange()
    reported = current
  }

  /** The oldest go first; equally old ones in a fixed order, so that an answer with too many has the same ones opened each time. */
  function forget(): void {
    const all = [...seen].flatMap(([name, of]) => [...of].map(([address, at]) => ({ name, address, at })))
    all.sort((a, b) => b.at - a.at || (a.address < b.address ? -1 : 1))
    const evicted: string[] = []
    for (const [place, { name, address, at }] of all.entries()) {
      const isOld = now() - at > forgetMs
      if (!isOld && place < maxAddresses) continue
      seen.get(name)?.delete(address)
      if (!isOld) evicted.push(address)
    }
    const anew = evicted.filter(address => !lastEvicted.includes(address))
    if (anew.length > 0) onEvicted(anew)
    lastEvicted = evicted
  }

  const tooLate = () => new Error('names of proxies are not resolved yet')
  const refresh = () => withTimeout(look(), lookupMs, tooLate).catch(ignoreError('the next look-up is within a minute'))
  return {
    refresh,
    unreachable,
    recent() {
      if (endpoints.length > 0 && now() - refreshedAt > refreshMs) void look()
      const open = endpoints.flatMap(({ hostname, port }) => addressesOf(hostname).map(address => ({ address, port })))
      const byText = new Map(open.map(one => [`${one.address}:${one.port}`, one]))
      return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one)
    },
    async forBuilds() {
      if (proxy === null || isOwnProxy) return proxy
      if (unreachable().length > 0 || now() - refreshedAt > refreshMs) await refresh()
      const http = proxy.http && isReachable(proxy.http) ? proxy.http : null
      const https = proxy.https && isReachable(proxy.https) ? proxy.https : null
      return http || https ? { ...proxy, http, https } : null
    },
  }
}

function blockList(subnets: string[]): BlockList {
  const list = new BlockList()
  for (const subnet of subnets) {
    const [network, bits] = subnet.split('/') as [string, string]
    list.addSubnet(network, Number(bits))
  }
  return list
}
