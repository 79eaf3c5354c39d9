import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/** The machine of a process, with what identifies the addresses that it listens on. */
export interface Machine {
  /** Id of this boot; null where the kernel does not report it. */
  bootId: string | null
  /** Whether an IP address belongs to the machine. */
  owns(address: string): boolean
}

/** The current machine. */
export function thisMachine(): Machine {
  return { bootId: bootId(), owns }
}

function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return null
  }
}

function owns(address: string): boolean {
  if (address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))) return true
  return Object.values(networkInterfaces()).some(addresses => addresses?.some(own => own.address === address))
}
