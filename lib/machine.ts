import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/** The machine that a process runs on, as far as what listens there is concerned. */
export interface Machine {
  /** Id of this boot; null where the kernel does not tell. */
  bootId: string | null
  /** Whether an IP address is one of its own. */
  owns(address: string): boolean
}

/** This machine, as it is now. */
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
