import { ApiError } from '../errors.ts'
import { type AppConfigFile, memoryLimits } from './app-config.ts'

/**
 * What a later configuration must respect of the application that it comes to: the subdomain is fixed at creation, and leaving it out
 * keeps it, with the memory that an address needs (contract 5.6). Throws CANNOT_SET_SUBDOMAIN, and INVALID_MEMORY below 512 MB.
 */
export function assertKeepsAddress(
  { subdomain, memoryMb }: Pick<AppConfigFile, 'subdomain' | 'memoryMb'>,
  address: string | null,
): void {
  if (subdomain !== null && subdomain !== address) throw new ApiError('CANNOT_SET_SUBDOMAIN')
  const { lowestWithAddressMb, highestMb } = memoryLimits
  if (address !== null && memoryMb < lowestWithAddressMb)
    throw new ApiError(
      'INVALID_MEMORY',
      `MEMORY must be a whole number of MB from ${lowestWithAddressMb} to ${highestMb}: the application keeps its address ${address}.`,
    )
}
