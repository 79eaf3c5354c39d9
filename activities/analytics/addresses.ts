import { networkInterfaces } from 'node:os'
import { type AddressDatabase, openAddressDatabase, openCountryDatabase } from '../../lib/address-database.ts'
import { AddressSet, canonicalNetwork, isPublicAddress } from '../../lib/addresses.ts'
import type { AddressDatabases } from '../../policy/network/analytics-settings.ts'
import { intake, stands } from '../../policy/network/analytics-terms.ts'

/** What is stored about a client. */
interface AddressTraits {
  /** The address, or what stands for those of the platform. */
  shown: string
  country: string
  city: string | null
  /** `NAME (NUMBER)`. */
  provider: string
}

/** Reads client addresses, and remembers a bounded number of them. */
export type AddressReader = (address: string) => AddressTraits

interface Databases {
  /** Country, and city where it has them. */
  countries: AddressDatabase
  /** Null: no provider is known. */
  networks: AddressDatabase | null
  /** Addresses of the machines of the platform. */
  own: Pick<AddressSet, 'has'>
}

/** Opens the databases of the settings. `own` are addresses and networks of the platform besides those of this machine. */
export async function openAddressReader({
  countryDatabase,
  asnDatabase,
  own,
}: AddressDatabases & { own: readonly string[] }): Promise<AddressReader> {
  const interfaces = Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])
  return addressReader({
    countries: await openCountryDatabase(countryDatabase),
    networks: asnDatabase === null ? null : await openAddressDatabase(asnDatabase),
    own: new AddressSet([...interfaces.map(({ address }) => address), ...own]),
  })
}

export function addressReader({ countries, networks, own }: Databases): AddressReader {
  const cache = new Map<string, AddressTraits>()

  function read(sent: string): AddressTraits {
    // A listener of IPv6 that also serves IPv4 logs `::ffff:192.0.2.1`.
    const address = canonicalNetwork(sent) ?? sent
    if (!isPublicAddress(address) || own.has(address))
      return { shown: stands.platform, country: stands.noCountry, city: null, provider: stands.platform }
    const place = countries(address)
    return {
      shown: address,
      country: place?.country ?? stands.noCountry,
      city: place?.city ?? null,
      provider: providerOf(networks?.(address)),
    }
  }

  return address => {
    const present = cache.get(address)
    if (present) return present
    if (cache.size >= intake.addresses) cache.clear()
    const traits = read(address)
    cache.set(address, traits)
    return traits
  }
}

const maxNameLength = 80

function providerOf(entry: ReturnType<AddressDatabase> | undefined): string {
  const { asn = null, network = null } = entry ?? {}
  if (asn === null) return stands.unknown
  return `${(network ?? `AS${asn}`).slice(0, maxNameLength)} (${asn})`
}
