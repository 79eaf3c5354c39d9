import { confirmPush } from '../../../db/acceptance.ts'
import type { Db } from '../../../db/database.ts'
import { type DeliverySource, findDeploymentOfDelivery, recordDelivery, storePush } from '../../../db/git/deliveries.ts'
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
import { networkOf } from '../../http/address.ts'
import { inviteBody, readBody } from '../../http/body.ts'
import type { BodyBudget } from '../../http/body-budget.ts'
import type { Exchange } from '../../http/call.ts'
import { failure, type Reply } from '../../http/respond.ts'
import { accept, within } from '../../pipeline/acceptance.ts'
import type { Services } from '../../services.ts'
import { wakeLane } from '../apps/command.ts'

const maxSenders = 10_000

/** Who has sent many large deliveries of a wrong signature of late, by address or by the owner of a webhook. Kept per process. */
export class UnsignedSenders {
  readonly #counts = new Map<string, { sent: number; until: number }>()

  note(subject: string, now: number): void {
    const known = this.#counts.get(subject)
    if (known && known.until > now) return void known.sent++
    if (this.#counts.size >= maxSenders) this.#counts.clear()
    this.#counts.set(subject, { sent: 1, until: now + unsignedDeliveries.perSeconds * 1000 })
  }

  has(subject: string, now: number): boolean {
    const known = this.#counts.get(subject)
    return known !== undefined && known.until > now && known.sent > unsignedDeliveries.allow
  }
}

const unsignedSenders = new UnsignedSenders()

/** Codes that `receive` throws; `refusalText` says them in this wire's words. */
export const deliveryErrors = ['INVALID_JSON_BODY', 'UPLOAD_BUSY'] as const

export interface Reception<T> {
  budget: BodyBudget
  /** Whose webhook it is; the address from which a body comes answers for it in any case. */
  ownerId?: string
  judge(body: Buffer): T
  verdictOf(judged: T): ReadDelivery['verdict']
}

/**
 * The body, whole and judged. Throws UPLOAD_BUSY when too many large ones are under way, and of addresses that sign wrongly; and what
 * `readBody` throws.
 */
export async function receive<T>(
  { request, response, address }: Exchange,
  { budget, ownerId, judge, verdictOf }: Reception<T>,
): Promise<T> {
  const declared = Number(request.headers['content-length'] ?? maxDeliveryBytes)
  const source = `address/${networkOf(address)}`
  // At a provider everybody can have something signed wrongly: where the owner is known, only the own webhooks suffer.
  const sender = ownerId ? `owner/${ownerId}` : source
  if (declared > freeBodyBytes && unsignedSenders.has(sender, Date.now())) throw new ApiError('UPLOAD_BUSY')
  const charge = budget.charge([...new Set([source, sender])])
  try {
    inviteBody(request, response)
    const body = await readBody(request, maxDeliveryBytes, { charge })
    const judged = judge(body)
    const verdict = verdictOf(judged)
    const isUnsigned = verdict.kind === 'refused' && verdict.status === 401
    if (isUnsigned && body.length > freeBodyBytes) unsignedSenders.note(sender, Date.now())
    return judged
  } finally {
    charge.end()
  }
}

/** Nothing is to be deployed, so the answer does not depend on whether the delivery could be kept. */
export async function note(source: DeliverySource, delivery: ReadDelivery, { db, log }: Services): Promise<WebhookReply> {
  const { kind, status, reason } = delivery.verdict as Exclude<ReadDelivery['verdict'], { kind: 'push' }>
  const reply = verdictReply(kind, status, reason)
  const kept = await within(
    recordDelivery(db, source, delivery, reply),
    performance.now() + acceptance.push.answerMs,
  ).catch(err => {
    log.warn({ err, app: source.appId }, 'a delivery that deployed nothing was not kept')
    return true
  })
  if (!kept) throw tooMany()
  return reply
}

/** Stores a push as a deploy and wakes its lane. What could not be stored is said to be unavailable, and may come again. */
export async function queue(
  source: DeliverySource,
  delivery: ReadDelivery,
  { restart, spentMs }: { restart: boolean; spentMs: number },
  services: Services,
): Promise<WebhookReply> {
  if (delivery.verdict.kind !== 'push') return unavailableReply
  const begun = performance.now() - spentMs
  const push = { ...source, delivery, push: delivery.verdict, restart }
  const terms = {
    commitBy: begun + acceptance.push.commitMs,
    answerBy: begun + acceptance.push.confirmMs,
    confirm: (db: Db, operationId: string) => confirmPush(db, source.appId, operationId),
  }
  /** Whatever became of this attempt: a delivery that another attempt has stored already is answered so while there is time. */
  const unlessSeen = async (): Promise<WebhookReply> => {
    const seen = within(seenDeployment(services.db, source, delivery.deliveryId), begun + acceptance.push.answerMs)
    const deploymentId = await seen.catch(() => undefined)
    return deploymentId ? duplicateReply(deploymentId) : unavailableReply
  }
  /** What its transaction has counted is rolled back with it: without this, such deliveries would cost nothing and be seen nowhere. */
  const refused = async (err: unknown): Promise<never> => {
    if (isTooMany(err))
      await within(noteDelivery(services.db, source, delivery, fullReply), begun + acceptance.push.answerMs).catch(err =>
        services.log.warn({ err, app: source.appId }, 'a delivery that found too many deploys waiting was not kept'),
      )
    throw err
  }
  const leave = await services.pushTurns.enter(source, terms.commitBy)
  if (!leave) return unlessSeen()
  try {
    const stored = await accept(services, trx => storePush(trx, push), terms)
      .finally(leave)
      .catch(refused)
    if (stored.kind === 'full') throw tooMany(stored.waitSeconds)
    if (stored.kind === 'gone') return unknownReply
    if (stored.kind === 'unsigned') return note(source, { ...delivery, verdict: unsignedVerdict }, services)
    wakeLane(services, { id: source.appId, owner_id: source.ownerId })
    return stored.kind === 'duplicate' ? duplicateReply(stored.deploymentId) : stored.reply
  } catch (err) {
    if (isTooMany(err)) throw err
    services.log.error({ err, app: source.appId }, 'a push could not be stored')
    return unlessSeen()
  }
}

const isTooMany = (err: unknown): boolean => err instanceof ApiError && err.code === 'KEEP_CALM'

const tooMany = (seconds = 15): ApiError => new ApiError('KEEP_CALM', undefined, seconds)

/** One line of text, which the provider shows beside the delivery. */
export function plain({ status, text }: WebhookReply): Reply {
  const headers: Record<string, string> = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' }
  if (status === 503) headers['Retry-After'] = '5'
  return { status, headers, body: text }
}

/** What the pipeline itself refuses, in this wire's words. */
export function refusalText(error: ApiError): Reply {
  if (error.code === 'KEEP_CALM') return failure(error, { terse: true })
  if (error.status >= 500) return plain(unavailableReply)
  return plain(verdictReply('refused', error.status, refusals[error.code] ?? 'the request is malformed'))
}

const refusals: Partial<Record<ApiError['code'], string>> = {
  PAYLOAD_TOO_LARGE: 'the body is over 25 MB',
  INVALID_CONTENT_TYPE: 'a content-encoded body is not accepted',
  INVALID_PARAMETERS: 'branch must be at most 256 characters, restart must be true or false',
  INVALID_JSON_BODY: 'the body did not arrive whole',
}
