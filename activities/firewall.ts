/** What keeps containers from the host's own services and from private networks around it. */
export interface Firewall {
  /** Puts the rules in place, replacing older ones of ours at once. Repeating it changes nothing. */
  apply(): Promise<void>
  /** Takes every rule of ours away; none there is success. */
  remove(): Promise<void>
}

export interface OpenedFirewall {
  firewall: Firewall | null
  /** Why there is none, for the summary of `berth up`; null when there is one. */
  notice: string | null
}

export interface FirewallTraits {
  /** Name servers that containers may ask although they lie in a private range. IPv4 addresses. */
  resolvers: readonly string[]
  /** Other private addresses that containers may reach, such as a build proxy. */
  allowed: readonly { address: string; port: number }[]
}

/** Ranges that containers have no business in: link-local (cloud metadata), private, shared, benchmark, multicast. */
export const refusedRanges = [
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

/** The rules of both chains, in order; each list ends where the chain returns to the host's own rules. */
export function firewallRules({ resolvers, allowed }: FirewallTraits): { input: string[]; forward: string[] } {
  const open = [
    // First, or the answers to the proxy's own connections would be refused too.
    '-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN',
    ...resolvers.flatMap(address =>
      ['udp', 'tcp'].map(protocol => `-d ${address} -p ${protocol} --dport 53 -j RETURN`),
    ),
    ...allowed.map(({ address, port }) => `-d ${address} -p tcp --dport ${port} -j RETURN`),
  ]
  const refused = (range: string) => [
    `${range}-p tcp -j REJECT --reject-with tcp-reset`,
    `${range}-j REJECT --reject-with icmp-port-unreachable`,
  ]
  return {
    input: [...open, ...refused('')],
    forward: [...open, ...refusedRanges.flatMap(range => refused(`-d ${range} `))],
  }
}

/** Addresses of the name servers in the text of a resolv.conf; containers are IPv4 only. */
export function nameServers(resolvConf: string): string[] {
  return [...resolvConf.matchAll(/^\s*nameserver\s+(\d+\.\d+\.\d+\.\d+)\s*$/gm)]
    .map(match => match[1]!)
    .filter(address => !address.startsWith('127.'))
}

/** The address of a proxy that containers may reach although it may be private; empty when there is none or it has a name only. */
export function proxyAddress(url: string | null): { address: string; port: number }[] {
  if (url === null || !URL.canParse(url)) return []
  const { hostname, port, protocol } = new URL(url)
  if (!/^\d+\.\d+\.\d+\.\d+$/.test(hostname)) return []
  return [{ address: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) }]
}
