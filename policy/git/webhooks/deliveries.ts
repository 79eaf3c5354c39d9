import { type DeliveryHeaders, deliveryIdOf, eventOf, type Provider, providerOf } from './providers.ts'
import type { Push } from './pushes.ts'
import { unsignedVerdict } from './replies.ts'
import { isSigned } from './signatures.ts'

export interface InboundDelivery {
  headers: DeliveryHeaders
  body: Buffer
  /** Null: everyone who knows the address may push. */
  secret: string | null
  /** The only branch that is deployed, from the address. */
  wantedBranch?: string
  now: Date
}

/** A parsed delivery, and what to do with it. */
export interface ReadDelivery {
  provider: Provider['name']
  event: string
  deliveryId: string
  branch: string | null
  commit: string | null
  verdict: Push | { kind: 'ignored' | 'skipped' | 'refused'; status: number; reason: string }
}

/** Parses and checks a delivery by its headers and raw bytes: signature first, then format, then content. Pure. */
export function readDelivery({ headers, body, secret, wantedBranch, now }: InboundDelivery): ReadDelivery {
  const provider = providerOf(headers)
  const event = eventOf(provider, headers)
  const deliveryId = deliveryIdOf(provider, headers, body)
  const read = (verdict: ReadDelivery['verdict'], branch: string | null = null, commit: string | null = null) => ({
    provider: provider.name,
    event,
    deliveryId,
    branch,
    commit,
    verdict,
  })
  if (secret !== null && !isSigned(secret, headers, body, now)) return read(unsignedVerdict)
  if (event !== provider.pushEvent)
    return read({ kind: 'ignored', status: 202, reason: `${oneLine(event)} is not a push` })
  const payload = payloadOf(headers['content-type'], body)
  if (payload === 'type')
    return read({ kind: 'refused', status: 415, reason: 'send JSON, or a form with the JSON in "payload"' })
  if (payload === 'json') return read({ kind: 'refused', status: 400, reason: 'the body is not a JSON object' })
  const verdict = provider.read(payload, wantedBranch?.toLowerCase())
  if (verdict.kind === 'push') return read(verdict, verdict.branch, verdict.commit)
  const { kind, reason } = verdict
  const branch = kind === 'skipped' ? verdict.branch : null
  return read({ kind, status: kind === 'refused' ? 400 : 202, reason: oneLine(reason) }, branch)
}

/** The JSON body, or the JSON in the field `payload` of a form, which is one provider's default. */
export function payloadOf(
  type: string | string[] | undefined,
  body: Buffer,
): Record<string, unknown> | 'type' | 'json' {
  const media = String(type ?? '')
    .split(';')[0]!
    .trim()
    .toLowerCase()
  const text = body.toString('utf8')
  if (media === '' || media === 'application/json' || media.endsWith('+json')) return objectOf(text)
  if (media !== 'application/x-www-form-urlencoded') return 'type'
  const payload = new URLSearchParams(text).get('payload')
  return payload === null ? 'type' : objectOf(payload)
}

function objectOf(text: string): Record<string, unknown> | 'json' {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : 'json'
  } catch {
    return 'json'
  }
}

/** Replies are one line, because people read them in the provider's list of deliveries. */
function oneLine(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, '?').slice(0, 300)
}
