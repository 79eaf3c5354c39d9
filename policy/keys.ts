import { hkdfSync } from 'node:crypto'

/** Throws for a root secret that is not 32 bytes in hex; not part of `parseConfig`, because commands work without one. */
export function demandMasterKey({ masterKey }: { masterKey: string }): void {
  if (!/^[0-9a-f]{64}$/.test(masterKey)) throw new Error('The setting BERTH_MASTER_KEY must be 32 bytes in hex.')
}

/** A 32-byte key for one purpose, derived from the installation's root secret (hex); keys of different purposes are independent. */
export function deriveKey(masterKeyHex: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.from(masterKeyHex, 'hex'), Buffer.alloc(0), `berth/${purpose}`, 32))
}

/** The bearer token of API and edge for one host's read server. */
export function hostReadKey(masterKeyHex: string, hostId: string): string {
  return deriveKey(masterKeyHex, `host-read/${hostId}`).toString('hex')
}

/** The bearer token of the API for the process that answers questions about requests. */
export function analyticsKey(masterKeyHex: string): string {
  return deriveKey(masterKeyHex, 'analytics').toString('hex')
}
