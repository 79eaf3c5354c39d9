import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { AddressSet } from '../../lib/addresses.ts'

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
