import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { type DeliveryHeaders, headerText } from './providers.ts'

/** Headers that carry an HMAC-SHA256 of the raw body in hex, after a prefix. */
const hexSignatures = [
  { header: 'x-hub-signature-256', prefix: 'sha256=' },
  { header: 'x-hub-signature', prefix: 'sha256=' },
  { header: 'x-gitea-signature', prefix: '' },
  { header: 'x-forgejo-signature', prefix: '' },
  { header: 'x-gogs-signature', prefix: '' },
] as const

/** How long a signature of GitLab's newer kind is valid before and after its timestamp, in seconds. */
const toleranceSeconds = 300

/**
 * Whether the sender knows the secret: at least one proof, and every SHA-256 signature that is present matches the raw bytes. SHA-1
 * proves nothing and is ignored. A plain token counts only without signatures. An empty secret is known to everyone and proves nothing.
 */
export function isSigned(secret: string, headers: DeliveryHeaders, body: Buffer, now: Date): boolean {
  if (secret === '') return false
  const signatures = [...hexSignatureChecks(secret, headers, body), ...standardCheck(secret, headers, body, now)]
  if (signatures.length > 0) return signatures.every(Boolean)
  const token = headerText(headers, 'x-gitlab-token')
  return token !== undefined && sameText(token, secret)
}

function hexSignatureChecks(secret: string, headers: DeliveryHeaders, body: Buffer): boolean[] {
  const present = hexSignatures.flatMap(({ header, prefix }) => {
    const value = headerText(headers, header)
    // GitHub sends SHA-1 in the header in which Bitbucket sends SHA-256.
    return value === undefined || value.startsWith('sha1=') ? [] : [{ value, prefix }]
  })
  if (present.length === 0) return []
  const expected = createHmac('sha256', secret).update(body).digest('hex')
  return present.map(({ value, prefix }) => sameText(value.toLowerCase(), prefix + expected))
}

/** Standard Webhooks: `v1,<base64>` over `id.timestamp.body`, several during a rotation of the key. */
function standardCheck(secret: string, headers: DeliveryHeaders, body: Buffer, now: Date): boolean[] {
  const signatures = headerText(headers, 'webhook-signature')
  if (signatures === undefined) return []
  const id = headerText(headers, 'webhook-id') ?? ''
  const timestamp = headerText(headers, 'webhook-timestamp') ?? ''
  const isExpired = Math.abs(now.getTime() / 1000 - Number(timestamp)) > toleranceSeconds
  if (!/^\d{1,12}$/.test(timestamp) || isExpired) return [false]
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')
  return [signatures.split(' ').some(signature => sameText(signature, `v1,${expected}`))]
}

/** Compares in a time that does not depend on where the texts differ. */
function sameText(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}
