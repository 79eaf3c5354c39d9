import { CodedError } from '../errors.ts'
import { type AppConfigFile, memoryLimits } from './app-config.ts'

/** Throws INVALID_HEALTH for a program that has a path to check and no address at which it could be requested (contract 5.20). */
export function assertCheckable({ health }: Pick<AppConfigFile, 'health'>, address: string | null): void {
  if (health && address === null)
    throw new CodedError('INVALID_HEALTH', 'HEALTH needs SUBDOMAIN: only web applications are checked.')
}

/**
 * Checks a later configuration of an application: the subdomain is fixed at creation; left out it stays, and so does the minimum memory
 * of an application with an address (contract 5.6). Throws CANNOT_SET_SUBDOMAIN, INVALID_MEMORY below 512 MB, and INVALID_HEALTH for a
 * program without an address.
 */
export function assertKeepsAddress(
  { subdomain, memoryMb, health }: Pick<AppConfigFile, 'subdomain' | 'memoryMb' | 'health'>,
  address: string | null,
): void {
  if (subdomain !== null && subdomain !== address) throw new CodedError('CANNOT_SET_SUBDOMAIN')
  const { minWithAddressMb, maxMb } = memoryLimits
  if (address !== null && memoryMb < minWithAddressMb)
    throw new CodedError(
      'INVALID_MEMORY',
      `MEMORY must be a whole number of MB from ${minWithAddressMb} to ${maxMb}: the application keeps its address ${address}.`,
    )
  assertCheckable({ health }, address)
}
