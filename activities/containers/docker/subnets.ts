import { createHash } from 'node:crypto'
import ipaddr, { type IPv4 } from 'ipaddr.js'

/** A range of IPv4 addresses: its network address, and the length of its prefix. */
export type Subnet = [network: IPv4, prefix: number]

/** Parses `10.1.2.0/24`; null when it is not an IPv4 range. */
export function parseSubnet(text: string): Subnet | null {
  if (!ipaddr.IPv4.isValidCIDRFourPartDecimal(text)) return null
  return [ipaddr.IPv4.networkAddressFromCIDR(text), ipaddr.IPv4.parseCIDR(text)[1]]
}

export const overlaps = ([a, bits]: Subnet, [b, otherBits]: Subnet): boolean => a.match(b, Math.min(bits, otherBits))

/**
 * The ranges of `pool` to try for a network of this name, best first, without those that are `taken`. Each name starts at its own
 * offset, so that processes that choose concurrently rarely collide. The engine decides who wins.
 */
export function* freeSubnets(pool: Subnet, prefix: number, name: string, taken: readonly Subnet[]): Generator<string> {
  const [base, poolPrefix] = pool
  const count = 2 ** (prefix - poolPrefix)
  const first = createHash('sha256').update(name).digest().readUInt32BE(0) % count
  for (let n = 0; n < count; n++) {
    const network = Buffer.from(base.octets)
    network.writeUInt32BE(network.readUInt32BE() + ((first + n) % count) * 2 ** (32 - prefix))
    const subnet: Subnet = [new ipaddr.IPv4([...network]), prefix]
    if (!taken.some(other => overlaps(subnet, other))) yield subnet.join('/')
  }
}
