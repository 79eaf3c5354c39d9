import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** The caller's address. `X-Forwarded-For` counts only hop by hop from a trusted proxy; a forged one moves nothing. */
export function addressOf(request: IncomingMessage, trustedProxies: readonly string[]): string {
  let address = plainAddress(request.socket.remoteAddress ?? '')
  const forwarded = request.headers['x-forwarded-for']
  if (forwarded === undefined || !trustedProxies.includes(address)) return address
  const hops = String(forwarded)
    .split(',')
    .map(hop => plainAddress(hop.trim()))
  for (let hop = hops.pop(); hop !== undefined && isIP(hop); hop = hops.pop()) {
    address = hop
    if (!trustedProxies.includes(hop)) break
  }
  return address
}

/** IPv4 in IPv6 clothes is the same address. */
export const plainAddress = (address: string): string => (address.startsWith('::ffff:') ? address.slice(7) : address)

/**
 * Addresses of the platform itself: loopback, container hosts, and the given networks of applications. The limit for
 * outside addresses does not apply to them (decision 29).
 */
export class InsideAddresses {
  #list = new BlockList()

  constructor(hosts: readonly string[] = [], networks: readonly string[] = []) {
    this.replace(hosts, networks)
  }

  replace(hosts: readonly string[], networks: readonly string[] = []): void {
    const list = new BlockList()
    list.addSubnet('127.0.0.0', 8)
    list.addAddress('::1', 'ipv6')
    for (const host of hosts) if (isIP(host)) list.addAddress(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')
    for (const network of networks) {
      const [address, bits] = network.split('/')
      list.addSubnet(address!, Number(bits))
    }
    this.#list = list
  }

  has(address: string): boolean {
    return this.#list.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
  }
}
