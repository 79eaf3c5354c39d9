import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { isIP } from 'node:net'
import { type CountryResponse, Reader } from 'mmdb-lib'

/** What a database of addresses (mmdb) has about one; fields that it does not have are null. */
interface AddressEntry {
  /** Two letters. */
  country: string | null
  city: string | null
  /** Number and name of the autonomous system. */
  asn: number | null
  network: string | null
}

/** Null for what is not an address, or is in no network of the database. */
export type AddressDatabase = (address: string) => AddressEntry | null

/** The two spellings in use: nested fields with names by language, and flat ones. */
interface Spellings {
  country_code?: string
  country?: { iso_code?: string } | string
  city?: { names?: Record<string, string> } | string
  autonomous_system_number?: number | string
  autonomous_system_organization?: string
}

/** The database of countries that an npm package contains, and that is updated with it. */
const bundled = '@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb'

const countries = new Map<string, Promise<AddressDatabase>>()

/** The database of countries in a file, or the bundled one (8 MB); each is read once in a process. */
export function openCountryDatabase(file: string | null): Promise<AddressDatabase> {
  const path = file ?? createRequire(import.meta.url).resolve(bundled)
  const present = countries.get(path) ?? openAddressDatabase(path)
  countries.set(path, present)
  return present
}

/** Reads a database file into memory. Rejects when it is missing or not such a database. */
export async function openAddressDatabase(path: string): Promise<AddressDatabase> {
  const reader = new Reader<CountryResponse>(await readFile(path))
  return address => {
    const spellings = isIP(address) === 0 ? null : (reader.get(address) as unknown as Spellings | null)
    return spellings && entryOf(spellings)
  }
}

function entryOf(spellings: Spellings): AddressEntry {
  const country =
    spellings.country_code ?? (typeof spellings.country === 'object' ? spellings.country.iso_code : spellings.country)
  const city = typeof spellings.city === 'object' ? spellings.city.names?.en : spellings.city
  const asn = Number(spellings.autonomous_system_number)
  return {
    country: country && /^[A-Z]{2}$/.test(country) ? country : null,
    city: city || null,
    asn: Number.isInteger(asn) && asn > 0 ? asn : null,
    network: spellings.autonomous_system_organization || null,
  }
}
