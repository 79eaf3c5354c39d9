import { randomBytes } from 'node:crypto'
import { endsWithCheck, hexCheck } from '../../accounts/credential-check.ts'
import { checkKey } from '../../accounts/credentials.ts'
import { deriveKey } from '../../keys.ts'

/** The last part of a webhook's address: 192 random bits and a check, 64 hex characters. */
export function newWebhookAddress(masterKey: string): string {
  const random = randomBytes(24).toString('hex')
  return random + hexCheck(addressKey(masterKey), random)
}

/** The key of this check is derived from the check key of API keys, so that both stay valid when the root secret is rotated. */
const addressKey = (masterKey: string): Buffer => fromKeyCheck(checkKey(masterKey))

const fromKeyCheck = (check: Buffer): Buffer => deriveKey(check.toString('hex'), 'webhook-address')

/** Whether this installation may have issued an address, also with an earlier root secret; false for addresses without a check, which are older. */
export function isIssuedAddress(
  { masterKey, earlierKeyChecks }: { masterKey: string; earlierKeyChecks: readonly Buffer[] },
  address: string,
): boolean {
  return [checkKey(masterKey), ...earlierKeyChecks].some(check => endsWithCheck(fromKeyCheck(check), address))
}
