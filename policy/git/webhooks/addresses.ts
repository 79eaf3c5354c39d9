import { randomBytes } from 'node:crypto'
import { endsWithCheck, hexCheck } from '../../accounts/credential-check.ts'
import { checkKey } from '../../accounts/credentials.ts'
import { deriveKey } from '../../keys.ts'

/** The last part of a webhook's address: 192 random bits and a check, 64 hex characters. */
export function newWebhookAddress(masterKey: string): string {
  const random = randomBytes(24).toString('hex')
  return random + hexCheck(addressKey(masterKey), random)
}

/** The key of this check derives from the one inside API keys, so that both go on when the root secret is rotated. */
const addressKey = (masterKey: string): Buffer => fromKeyCheck(checkKey(masterKey))

const fromKeyCheck = (check: Buffer): Buffer => deriveKey(check.toString('hex'), 'webhook-address')

/** Whether this installation may have issued an address, also with a root secret that was rotated out; not those from before there was a check. */
export function isIssuedAddress(
  { masterKey, earlierKeyChecks }: { masterKey: string; earlierKeyChecks: readonly Buffer[] },
  address: string,
): boolean {
  return [checkKey(masterKey), ...earlierKeyChecks].some(check => endsWithCheck(fromKeyCheck(check), address))
}
