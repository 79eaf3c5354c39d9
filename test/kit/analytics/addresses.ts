import { type AddressReader, addressReader } from '../../../activities/analytics/addresses.ts'
import { openCountryDatabase } from '../../../lib/address-database.ts'

/** Reads countries from the database of the package, and two providers from a table. */
export async function testAddresses(): Promise<AddressReader> {
  const networks: Record<string, [number, string]> = { '200': [22_548, 'NIC.br'], '8': [15_169, 'GOOGLE'] }
  return addressReader({
    countries: await openCountryDatabase(null),
    networks: address => {
      const [asn = null, network = null] = networks[address.split('.')[0]!] ?? []
      return { country: null, city: null, asn, network }
    },
    own: new Set<string>(),
  })
}
