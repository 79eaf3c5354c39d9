import { type DeliveryHeaders, deliveryIdOf, eventOf, type Provider, providerOf } from './providers.ts'
import type { Push } from './pushes.ts'
import { unsignedVerdict } from './replies.ts'

export interface InboundDelivery {
  headers: DeliveryHeaders
  body: Buffer
  /** Whether its signature is right, or none is needed. */
  isSigned: boolean
  /** The only branch that is deployed, from the address. */
  wantedBranch?: string
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

/** Parses and checks a delivery by its headers and body: signature first, then format, then content. Pure. */
export function readDelivery({ headers, body, isSigned, wantedBranch }: InboundDelivery): ReadDelivery {
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
  if (!isSigned) return read(unsignedVerdict)
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
  const text = payloadText(type, body)
  return text === null ? 'type' : objectOf(text)
}

/** The text of the payload; null when the body is of another type. */
export function payloadText(type: string | string[] | undefined, body: Buffer): string | null {
  const media = String(type ?? '')
    .split(';')[0]!
    .trim()
    .toLowerCase()
  const text = body.toString('utf8')
  if (media === '' || media === 'application/json' || media.endsWith('+json')) return text
  return media === 'application/x-www-form-urlencoded' ? formField(text, 'payload') : null
}

/** The first field of this name. Only this one is decoded: a body can be a form of millions of fields. */
function formField(form: string, name: string): string | null {
  const before = `&${name}=`
  const at = `&${form}`.indexOf(before)
  if (at < 0) return null
  const value = form.slice(at + before.length - 1).split('&', 1)[0]!
  try {
    return decodeURIComponent(value.replaceAll('+', ' '))
  } catch {
    return ''
  }
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
