import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { isIP } from 'node:net'
import { type CountryResponse, Reader } from 'mmdb-lib'

/** The database entry of a network. */
interface Entry {
  country_code: string
}

/** Whether an address is registered in one of these countries; private and unknown addresses are in none. */
export type InCountries = (address: string) => boolean

const database = '@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb'
let opened: Promise<Reader<CountryResponse>> | undefined

/** Reads the country database (8 MB, once), which is an npm package and is updated with it. Without countries there is nothing to read. */
export async function openCountries(codes: readonly string[]): Promise<InCountries> {
  if (codes.length === 0) return () => false
  opened ??= openDatabase()
  const reader = await opened
  return address => {
    const entry = isIP(address) ? (reader.get(address) as unknown as Entry | null) : null
    return entry !== null && codes.includes(entry.country_code)
  }
}

async function openDatabase(): Promise<Reader<CountryResponse>> {
  const path = createRequire(import.meta.url).resolve(database)
  return new Reader<CountryResponse>(await readFile(path))
}
