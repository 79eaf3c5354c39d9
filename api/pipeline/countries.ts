import { openCountryDatabase } from '../../lib/address-database.ts'

/** Whether an address is registered in one of these countries; private and unknown addresses are in none. */
export type InCountries = (address: string) => boolean

/** Opens the country database: that of the operator (`COUNTRY_DATABASE`), or the bundled one. Without countries nothing is read. */
export async function openCountries(codes: readonly string[], file: string | null = null): Promise<InCountries> {
  if (codes.length === 0) return () => false
  const entryOf = await openCountryDatabase(file)
  return address => {
    const country = entryOf(address)?.country
    return country != null && codes.includes(country)
  }
}
