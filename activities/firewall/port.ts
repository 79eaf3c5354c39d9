import { isIPv4 } from 'node:net'
import { isLoopbackIPv4 } from '../../lib/addresses.ts'
import { networkLimits } from '../../policy/hosts/network-limits.ts'

/** Blocks containers from the host's own services and from private networks around it. */
export interface Firewall {
  /** Checks every rule and its position, and repairs what is wrong. Idempotent. */
  apply(): Promise<FirewallState>
  /**
   * Opens these ports, and closes those of earlier calls; connections that are open stay. An equal set changes nothing. Until the first
   * call, `apply` retains what an earlier process opened. Throws RangeError for what is no admission; when it rejects, `apply` tries again.
   */
  admit(admissions: readonly Admission[]): Promise<void>
  /** Removes all of our rules; none there is success. */
  remove(): Promise<void>
}

/** A TCP port of one container, open to the others behind the same bridge: the containers of one owner. */
export interface Admission {
  /** Name of the interface. */
  bridge: string
  /** The container's IPv4 address. */
  address: string
  port: number
}

export interface FirewallState {
  /** What was wrong and is repaired; empty when nothing was. */
  repaired: string[]
  /** False where the kernel cannot count connections, so that only destinations are blocked. */
  limited: boolean
}

/** The state, as operators see it. */
export const firewallState = ({ limited }: Pick<FirewallState, 'limited'>): string =>
  limited ? 'on' : 'on, without limits on connections: the kernel does not count them'

export interface OpenedFirewall {
  firewall: Firewall | null
  /** Why there is none, for the summary of `berth up`; null when there is one. */
  notice: string | null
}

export interface FirewallTraits {
  /** Name servers in private ranges that containers may query. IPv4 addresses. */
  resolvers: readonly string[]
  /** Bridges of builds (a trailing + matches any suffix), and the proxies that only builds may reach. */
  builds: { bridges: string; proxies: readonly { address: string; port: number }[] }
  /** Name of the chain of admissions. */
  admitted: string
  /** Name of the table that counts new connections; null on kernels that cannot count them. */
  counter: string | null
}

/** Ranges that are blocked for containers: link-local (cloud metadata), private, shared, benchmark, multicast. */
const refusedRanges = [
  '169.254.0.0/16',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '0.0.0.0/8',
  '198.18.0.0/15',
  '224.0.0.0/4',
] as const

/** The rules of both chains, in order; after them the chain returns to the host's own rules. */
export function firewallRules({ resolvers, builds, admitted, counter }: FirewallTraits): {
  input: string[]
  forward: string[]
} {
  // First, because answers to the proxy's own connections would be refused otherwise.
  const answers = '-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN'
  const open = [
    ...resolvers.flatMap(address =>
      ['udp', 'tcp'].map(protocol => `-d ${address} -p ${protocol} --dport 53 -j RETURN`),
    ),
    ...builds.proxies.flatMap(({ address, port }) => {
      const proxy = `-d ${address} -p tcp --dport ${port}`
      // Blocked for everything else, even if its address is public.
      return [`-i ${builds.bridges} ${proxy} -j RETURN`, `${proxy} -j REJECT --reject-with tcp-reset`]
    }),
  ]
  const refused = (range: string) => [
    `${range}-p tcp -j REJECT --reject-with tcp-reset`,
    `${range}-j REJECT --reject-with icmp-port-unreachable`,
  ]
  return {
    // What builds may reach here is on this machine: its table of connections is everyone's.
    input: [answers, ...counted(counter).map(rule => `-i ${builds.bridges} ${rule}`), ...open, ...refused('')],
    // Admissions count as connections of the container that makes them.
    forward: [
      answers,
      ...limits(counter),
      `-p tcp -j ${admitted}`,
      ...open,
      ...refusedRanges.flatMap(range => refused(`-d ${range} `)),
    ],
  }
}

/**
 * The rules of the chain of admissions, each once and sorted, so that equal sets have equal rules. They precede the rule by which the
 * engine separates the containers of a network. Throws RangeError for what is no bridge, address or port.
 */
export function admissionRules(admissions: readonly Admission[]): string[] {
  const rules = admissions.map(admission => {
    const { bridge, address, port } = admission
    const isWhole = /^[a-z0-9][a-z0-9-]{0,14}$/.test(bridge) && isIPv4(address)
    if (!isWhole || !Number.isInteger(port) || port < 1 || port > 65_535)
      throw new RangeError(`No admission: ${JSON.stringify(admission)}`)
    return `-i ${bridge} -o ${bridge} -d ${address} -p tcp --dport ${port} -j ACCEPT`
  })
  return [...new Set(rules)].sort()
}

/** Limits per container: connections above a limit are refused, not dropped, so that programs fail immediately. */
function limits(counter: string | null): string[] {
  const { refusedPorts } = networkLimits
  const ports = refusedPorts.map(port => `-p tcp --dport ${port} -j REJECT --reject-with tcp-reset`)
  return [...ports, ...counted(counter)]
}

function counted(counter: string | null): string[] {
  const { openConnections, newPerSecond, newAtOnce } = networkLimits
  if (counter === null) return []
  const fast = `--hashlimit-above ${newPerSecond}/sec --hashlimit-burst ${newAtOnce} --hashlimit-mode srcip`
  return [
    `-m connlimit --connlimit-above ${openConnections} --connlimit-saddr --connlimit-mask 32 -j REJECT`,
    `-m hashlimit ${fast} --hashlimit-name ${counter} -j REJECT`,
  ]
}

/**
 * The rules for connections from elsewhere to ports that are published for all networks, which only databases have. The engine of a database
 * limits its own connections; these limit what one address takes of the machine's table of connections, which all share.
 */
export function inwardRules(counter: string | null): string[] {
  const { openConnections, newPerSecond, newAtOnce } = networkLimits.inward
  if (counter === null) return []
  const fast = `--hashlimit-above ${newPerSecond}/sec --hashlimit-burst ${newAtOnce} --hashlimit-mode srcip`
  const refused = '-j REJECT --reject-with tcp-reset'
  return [
    '-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN',
    `-p tcp -m connlimit --connlimit-above ${openConnections} --connlimit-saddr --connlimit-mask 32 ${refused}`,
    `-p tcp -m hashlimit ${fast} --hashlimit-name ${counter}in ${refused}`,
  ]
}

/** Addresses of the name servers in the text of a resolv.conf; containers are IPv4 only. */
export function nameServers(resolvConf: string): string[] {
  return [...resolvConf.matchAll(/^\s*nameserver\s+(\d+\.\d+\.\d+\.\d+)\s*$/gm)]
    .map(match => match[1]!)
    .filter(address => !isLoopbackIPv4(address))
}
