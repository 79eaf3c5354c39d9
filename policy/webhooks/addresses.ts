import { randomBytes } from 'node:crypto'
import { endsWithCheck, hexCheck } from '../credential-check.ts'
import { deriveKey } from '../keys.ts'

/** The last part of a webhook's address: 192 random bits and a check, 64 hex characters. */
export function newWebhookAddress(masterKey: string): string {
  const random = randomBytes(24).toString('hex')
  return random + hexCheck(addressKey(masterKey), random)
}

export const addressKey = (masterKey: string): Buffer => deriveKey(masterKey, 'webhook-address')

/** Whether this installation may have issued an address; those from before there was a check are none of these. */
export const isIssuedAddress = endsWithCheck
