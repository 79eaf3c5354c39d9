import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

const maxCached = 1000

/** Single addresses and networks (`10.0.0.0/8`, `2001:db8::/32`); other entries are ignored. */
export class AddressSet {
  #list = new BlockList()
  /** Recent results: searching the list costs more than everything else that is done with an address. */
  readonly #cached = new Map<string, boolean>()

  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const [address = '', bits] = entry.split('/')
      const family = isIP(address)
      const type = family === 6 ? 'ipv6' : 'ipv4'
      if (family && bits === undefined) this.#list.addAddress(address, type)
      else if (family) this.#list.addSubnet(address, Number(bits), type)
    }
  }

  has(address: string): boolean {
    const cached = this.#cached.get(address)
    if (cached !== undefined) return cached
    const isListed = this.#list.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
    if (this.#cached.size >= maxCached) this.#cached.clear()
    this.#cached.set(address, isListed)
    return isListed
  }
}

/** Addresses of the platform itself, in addition to hosts and applications. */
export const loopback: readonly string[] = ['127.0.0.0/8', '::1']

/** The caller's address. `X-Forwarded-For` is trusted hop by hop, from trusted proxies only, so a forged one has no effect. */
export function addressOf(request: IncomingMessage, trustedProxies: AddressSet): string {
  let address = plainAddress(request.socket.remoteAddress ?? '')
  const forwarded = request.headers['x-forwarded-for']
  if (forwarded === undefined || !trustedProxies.has(address)) return address
  const hops = String(forwarded)
    .split(',')
    .map(hop => plainAddress(hop.trim()))
  for (let hop = hops.pop(); hop !== undefined && isIP(hop); hop = hops.pop()) {
    address = hop
    if (!trustedProxies.has(hop)) break
  }
  return address
}

/** An IPv4-mapped IPv6 address is its IPv4 address. */
export const plainAddress = (address: string): string => (address.startsWith('::ffff:') ? address.slice(7) : address)

/** The network that one caller controls: the /64 of an IPv6 address, in one notation; an IPv4 address itself. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const { parts } = ipaddr.IPv6.parse(address)
  return parts
    .slice(0, 4)
    .map(group => group.toString(16))
    .join(':')
}
