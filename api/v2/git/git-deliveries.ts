import { NotBegun } from '../../../db/batched.ts'
import { tooManyWaiting } from '../../../db/deploys/deploys.ts'
import { type DeliverySource, deploymentOfDelivery, recordDelivery } from '../../../db/git/deliveries.ts'
import type { PushOutcome } from '../../../db/git/pushes.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { acceptance } from '../../../policy/acceptance.ts'
import { freeBodyBytes, maxDeliveryBytes, unsignedDeliveries } from '../../../policy/body-budgets.ts'
import { ApiError } from '../../../policy/errors.ts'
import type { ReadDelivery } from '../../../policy/git/webhooks/deliveries.ts'
import {
  duplicateReply,
  fullReply,
  unavailableReply,
  unknownReply,
  unsignedVerdict,
  verdictReply,
  type WebhookReply,
} from '../../../policy/git/webhooks/replies.ts'
import { newId } from '../../../policy/ids.ts'
import { networkOf } from '../../http/address.ts'
import { inviteBody, readBody } from '../../http/body.ts'
import type { BodyBudget } from '../../http/body-budget.ts'
import type { Exchange } from '../../http/exchange.ts'
import { failure, type Reply } from '../../http/respond.ts'
import { acceptAtOnce, within } from '../../pipeline/acceptance.ts'
import type { Services } from '../../services.ts'
import { wakeLane } from '../apps/command.ts'

const maxSenders = 10_000

/** Counts large deliveries with a wrong signature, by address or by the owner of a webhook, in this process. */
export class UnsignedSenders {
  readonly #counts = new Map<string, { sent: number; until: number }>()

  add(subject: string, now: number): void {
    const count = this.#counts.get(subject)
    if (count && count.until > now) return void count.sent++
    if (this.#counts.size >= maxSenders) this.#counts.clear()
    this.#counts.set(subject, { sent: 1, until: now + unsignedDeliveries.perSeconds * 1000 })
  }

  /** Whether a subject has sent more than are allowed. */
  isOver(subject: string, now: number): boolean {
    const count = this.#counts.get(subject)
    return count !== undefined && count.until > now && count.sent > unsignedDeliveries.allow
  }
}

const unsignedSenders = new UnsignedSenders()

/** Codes that `acceptDelivery` throws; `refusalText` words them for git providers. */
export const deliveryErrors = ['INVALID_JSON_BODY', 'UPLOAD_BUSY'] as const

export interface Reception<T> {
  budget: BodyBudget
  /** Of the webhook; large bodies are charged to the sending address in any case. */
  ownerId?: string
  read(body: Buffer): T
  verdictOf(delivery: T): ReadDelivery['verdict']
}

/**
 * Receives the whole body and reads it. Throws UPLOAD_BUSY while too many large ones are in progress, and for senders that sign
 * wrongly; and what `readBody` throws.
 */
export async function acceptDelivery<T>(
  { request, response, address }: Exchange,
  { budget, ownerId, read, verdictOf }: Reception<T>,
): Promise<T> {
  const declared = Number(request.headers['content-length'] ?? maxDeliveryBytes)
  const source = `address/${networkOf(address)}`
  // Anyone can make a provider send something wrongly signed: where the owner is known, only that owner's webhooks suffer.
  const sender = ownerId ? `owner/${ownerId}` : source
  if (declared > freeBodyBytes && unsignedSenders.isOver(sender, Date.now())) throw new ApiError('UPLOAD_BUSY')
  const charge = budget.charge([...new Set([source, sender])])
  try {
    inviteBody(request, response)
    const body = await readBody(request, maxDeliveryBytes, { charge })
    const delivery = read(body)
    const verdict = verdictOf(delivery)
    const isUnsigned = verdict.kind === 'refused' && verdict.status === 401
    if (isUnsigned && body.length > freeBodyBytes) unsignedSenders.add(sender, Date.now())
    return delivery
  } finally {
    charge.end()
  }
}

export async function recordIgnoredDelivery(
  source: DeliverySource,
  delivery: ReadDelivery,
  services: Services,
): Promise<WebhookReply> {
  const { kind, status, reason } = delivery.verdict as Exclude<ReadDelivery['verdict'], { kind: 'push' }>
  const reply = verdictReply(kind, status, reason)
  const by = performance.now() + acceptance.push.answerMs
  if (!(await record(source, delivery, reply, { by }, services))) throw tooMany()
  return reply
}

/** False: the sender exceeds its rate. Nothing is deployed, so the answer does not depend on whether the delivery could be recorded. */
async function record(
  source: DeliverySource,
  delivery: ReadDelivery,
  reply: WebhookReply,
  { by, isCounted = false }: { by: number; isCounted?: boolean },
  { db, log }: Services,
): Promise<boolean> {
  return within(recordDelivery(db, source, delivery, reply, isCounted), by).catch(err => {
    log.warn({ err, app: source.appId }, 'a delivery that deployed nothing was not recorded')
    return true
  })
}

/** Stores a push as a deploy and wakes its lane. One that could not be stored is answered 503, and may be sent again. */
export async function acceptPush(
  source: DeliverySource,
  delivery: ReadDelivery,
  { restart, spentMs }: { restart: boolean; spentMs: number },
  services: Services,
): Promise<WebhookReply> {
  if (delivery.verdict.kind !== 'push') return unavailableReply
  const startedAt = performance.now() - spentMs
  const { db, pushes } = services
  const [deploymentId, operationId] = [newId(), newId()]
  const push = { ...source, delivery, push: delivery.verdict, restart, deploymentId, operationId }
  const commitBy = startedAt + acceptance.push.commitMs
  const answerBy = startedAt + acceptance.push.confirmMs
  /** Whatever became of this attempt: a delivery that another attempt has stored is a duplicate, if that can be found out in time. */
  const duplicateOrUnavailable = async (): Promise<WebhookReply> => {
    const stored = deploymentOfDelivery(db, source, delivery.deliveryId)
    const deploymentId = await within(stored, startedAt + acceptance.push.answerMs).catch(
      ignoreError('the provider delivers it again'),
    )
    return deploymentId ? duplicateReply(deploymentId) : unavailableReply
  }
  try {
    const one = {
      operationId,
      store: () => pushes.store(db, push, startedAt + acceptance.push.beginMs),
      find: () => pushes.find(db, operationId),
      confirm: (stored: string) => pushes.confirm(db, source, stored),
    }
    const stored = await acceptAtOnce<PushOutcome>(services, one, { commitBy, answerBy })
    if (stored.kind === 'crowded') {
      const by = startedAt + acceptance.push.answerMs
      await record(source, delivery, fullReply, { by, isCounted: true }, services)
      throw tooManyWaiting(stored.waiting)
    }
    return await replyTo(stored, source, delivery, services)
  } catch (err) {
    if (isTooMany(err)) throw err
    if (!(err instanceof NotBegun)) services.log.error({ err, app: source.appId }, 'a push could not be stored')
    return duplicateOrUnavailable()
  }
}

async function replyTo(
  stored: Exclude<PushOutcome, { kind: 'crowded' }>,
  source: DeliverySource,
  delivery: ReadDelivery,
  services: Services,
): Promise<WebhookReply> {
  if (stored.kind === 'full') throw tooMany(stored.waitSeconds)
  if (stored.kind === 'gone') return unknownReply
  if (stored.kind === 'unsigned')
    return recordIgnoredDelivery(source, { ...delivery, verdict: unsignedVerdict }, services)
  wakeLane(services, { id: source.appId, owner_id: source.ownerId })
  return stored.kind === 'duplicate' ? duplicateReply(stored.deploymentId) : stored.reply
}

const isTooMany = (err: unknown): boolean => err instanceof ApiError && err.code === 'KEEP_CALM'

const tooMany = (seconds = 15): ApiError => new ApiError('KEEP_CALM', undefined, seconds)

/** One line of text, which the provider shows next to the delivery. */
export function textReply({ status, text }: WebhookReply): Reply {
  const headers: Record<string, string> = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' }
  if (status === 503) headers['Retry-After'] = '5'
  return { status, headers, body: text }
}

/** What the pipeline itself refuses, worded for git providers. */
export function refusalText(error: ApiError): Reply {
  if (error.code === 'KEEP_CALM') return failure(error, { terse: true })
  if (error.status >= 500) return textReply(unavailableReply)
  return textReply(verdictReply('refused', error.status, refusals[error.code] ?? 'the request is malformed'))
}

const refusals: Partial<Record<ApiError['code'], string>> = {
  PAYLOAD_TOO_LARGE: 'the body is over 25 MB',
  INVALID_CONTENT_TYPE: 'a content-encoded body is not accepted',
  INVALID_PARAMETERS: 'branch must be at most 256 characters, restart must be true or false',
  INVALID_JSON_BODY: 'the body did not arrive completely',
}
