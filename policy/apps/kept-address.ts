import { ApiError } from '../errors.ts'
import { type AppConfigFile, memoryLimits } from './app-config.ts'

/**
 * Checks a later configuration of an application: the subdomain is fixed at creation; left out it stays, and so does the minimum memory
 * of an application with an address (contract 5.6). Throws CANNOT_SET_SUBDOMAIN, and INVALID_MEMORY below 512 MB.
 */
export function assertKeepsAddress(
  { subdomain, memoryMb }: Pick<AppConfigFile, 'subdomain' | 'memoryMb'>,
  address: string | null,
): void {
  if (subdomain !== null && subdomain !== address) throw new ApiError('CANNOT_SET_SUBDOMAIN')
  const { minWithAddressMb, maxMb } = memoryLimits
  if (address !== null && memoryMb < minWithAddressMb)
    throw new ApiError(
      'INVALID_MEMORY',
      `MEMORY must be a whole number of MB from ${minWithAddressMb} to ${maxMb}: the application keeps its address ${address}.`,
    )
}
