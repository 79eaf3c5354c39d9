import { createHash } from 'node:crypto'

/** A range of IPv4 addresses: network address as a number, and prefix length. */
export interface Subnet {
  base: number
  prefix: number
}

/** Parses `10.1.2.0/24`; null when it is not an IPv4 range. */
export function parseSubnet(text: string): Subnet | null {
  const match = /^(\d+)\.(\d+)\.(\d+)\.(\d+)\/(\d+)$/.exec(text)
  if (!match) return null
  const [a, b, c, d, prefix] = match.slice(1).map(Number) as [number, number, number, number, number]
  if (prefix > 32 || [a, b, c, d].some(part => part > 255)) return null
  const size = 2 ** (32 - prefix)
  const address = ((a * 256 + b) * 256 + c) * 256 + d
  return { base: Math.floor(address / size) * size, prefix }
}

export function subnetText({ base, prefix }: Subnet): string {
  return `${[24, 16, 8, 0].map(shift => Math.floor(base / 2 ** shift) % 256).join('.')}/${prefix}`
}

export function overlaps(a: Subnet, b: Subnet): boolean {
  return a.base < b.base + 2 ** (32 - b.prefix) && b.base < a.base + 2 ** (32 - a.prefix)
}

/**
 * The ranges of `pool` to try for a network of this name, best first, without those that are `taken`. Each name starts at its own
 * offset, so that processes that choose concurrently rarely collide. The engine decides who wins.
 */
export function* freeSubnets(pool: Subnet, prefix: number, name: string, taken: readonly Subnet[]): Generator<string> {
  const count = 2 ** (prefix - pool.prefix)
  const first = createHash('sha256').update(name).digest().readUInt32BE(0) % count
  for (let n = 0; n < count; n++) {
    const subnet = { base: pool.base + ((first + n) % count) * 2 ** (32 - prefix), prefix }
    if (!taken.some(other => overlaps(subnet, other))) yield subnetText(subnet)
  }
}
