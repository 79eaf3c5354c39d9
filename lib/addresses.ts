import { BlockList, isIP, isIPv4, isIPv6, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** IPv4 ranges without public servers: special-purpose registry (RFC 6890), shared, multicast and reserved space. */
const closedV4: readonly [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]

/** Inside the global range 2000::/3, but not public: protocol assignments (such as Teredo), documentation, 6to4. */
const closedV6: readonly [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
]

const closed = new BlockList()
for (const [network, bits] of closedV4) closed.addSubnet(network, bits, 'ipv4')
for (const [network, bits] of closedV6) closed.addSubnet(network, bits, 'ipv6')
const globalV6 = new BlockList()
globalV6.addSubnet('2000::', 3, 'ipv6')

/**
 * Whether a text is an IPv4 or IPv6 address of the public network. Loopback, link-local, private, shared and reserved
 * addresses are not, nor is any IPv6 form of IPv4, nor a text that is not an address.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !closed.check(address, 'ipv4')
  if (!isIPv6(address) || address.includes('%')) return false
  return globalV6.check(address, 'ipv6') && !closed.check(address, 'ipv6')
}

/** The host of a URL as sockets take it: an IPv6 address without its brackets. */
export const unbracketed = (hostname: string): string => hostname.replace(/^\[(.*)\]$/, '$1')

/** Whether an IPv4 address is one of the machine that uses it. */
export const isLoopbackIPv4 = (address: string): boolean => address.startsWith('127.')

/** Whether a host name of a URL is an address that is not public: connections to it look nothing up. A name is not. */
export function isClosedAddress(hostname: string): boolean {
  const address = unbracketed(hostname)
  return isIP(address) !== 0 && !isPublicAddress(address)
}

/** Ranges of ipaddr.js that lead to this machine or stay in its networks. */
const privateRanges: readonly string[] = [
  'unspecified',
  'loopback',
  'private',
  'uniqueLocal',
  'linkLocal',
  'carrierGradeNat',
]

/**
 * Whether a text is an address of this machine or of a private network. Stricter than the opposite of `isPublicAddress`: reserved
 * addresses, and IPv6 forms of public IPv4 ones, are neither.
 */
export const isPrivateAddress = (address: string): boolean =>
  isIP(address) !== 0 && !address.includes('%') && privateRanges.includes(ipaddr.process(address).range())

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

/** Resolves every name to these addresses, which were checked: a connection goes to none that its name has since been given. */
export function pinnedLookup(addresses: readonly string[]): LookupFunction {
  const entries = addresses.map(address => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_, { all }, callback) =>
    all ? callback(null, entries) : callback(null, entries[0]!.address, entries[0]!.family)
}

/**
 * An address, or a network in CIDR notation, in its only form: without the bits that do not count, IPv6 compressed, and IPv6 forms of
 * IPv4 as IPv4. Null for anything else.
 */
export function canonicalNetwork(text: string): string | null {
  const [address = '', bits = '', ...rest] = text.trim().split('/')
  // `isIP` is strict about what ipaddr.js reads leniently, as in `127.1`.
  if (rest.length > 0 || !isIP(address) || address.includes('%')) return null
  const given = ipaddr.parse(address)
  const all = given.kind() === 'ipv4' ? 32 : 128
  if (text.includes('/') && (!/^\d{1,3}$/.test(bits) || Number(bits) > all)) return null
  const parsed = ipaddr.process(address)
  const mapped = parsed.kind() !== given.kind()
  const counted = (bits === '' ? all : Number(bits)) - (mapped ? 96 : 0)
  if (counted < 0) return null
  const bytes = parsed.toByteArray().map((byte, at) => byte & leadingOnes(counted - at * 8))
  const network = ipaddr.fromByteArray(bytes).toString()
  return counted === bytes.length * 8 ? network : `${network}/${counted}`
}

/** A byte whose first bits are set: none for 0 or less, all for 8 or more. */
const leadingOnes = (bits: number): number => (0xff00 >> Math.min(8, Math.max(0, bits))) & 0xff
