import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

const mostKnown = 1000

/** Single addresses and networks (`10.0.0.0/8`, `2001:db8::/32`); what is neither is left out. */
export class AddressSet {
  #list = new BlockList()
  /** What was asked lately: a look into the list costs more than all else that is done with an address. */
  readonly #known = new Map<string, boolean>()

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
    const known = this.#known.get(address)
    if (known !== undefined) return known
    const found = this.#list.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
    if (this.#known.size >= mostKnown) this.#known.clear()
    this.#known.set(address, found)
    return found
  }
}

/** What belongs to the platform itself besides hosts and applications. */
export const loopback: readonly string[] = ['127.0.0.0/8', '::1']

/** The caller's address. `X-Forwarded-For` counts only hop by hop from a trusted proxy; a forged one moves nothing. */
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

/** IPv4 in IPv6 clothes is the same address. */
export const plainAddress = (address: string): string => (address.startsWith('::ffff:') ? address.slice(7) : address)

/** The network that one caller owns: an IPv6 address stands for its /64, however its zeros are written. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [head = [], tail = []] = address.split('::').map(part => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => '0')
  const groups = [...head, ...zeros, ...tail].slice(0, 4)
  return groups.map(group => group.replace(/^0+(?=.)/, '').toLowerCase()).join(':')
}
