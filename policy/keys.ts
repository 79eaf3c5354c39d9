import { hkdfSync } from 'node:crypto'

/** A 32-byte key for one purpose, derived from the installation's root secret (hex), so that no purpose can use another's. */
export function deriveKey(masterKeyHex: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.from(masterKeyHex, 'hex'), Buffer.alloc(0), `berth/${purpose}`, 32))
}

/** The bearer text with which API and edge speak to one host's read server. */
export function hostReadKey(masterKeyHex: string, hostId: string): string {
  return deriveKey(masterKeyHex, `host-read/${hostId}`).toString('hex')
}
