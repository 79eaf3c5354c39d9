import type { IncomingHttpHeaders } from 'node:http'
import { NotBegun } from '../../../db/batched.ts'
import { tooManyWaiting } from '../../../db/deploys/deploys.ts'
import {
  bucketKey,
  bucketSeconds,
  type DeliverySource,
  deploymentOfDelivery,
  recordDelivery,
} from '../../../db/git/deliveries.ts'
import type { PushOutcome } from '../../../db/git/pushes.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { acceptance } from '../../../policy/acceptance.ts'
import {
  denseJson,
  freeBodyBytes,
  largeDeliveries,
  maxDeliveryBytes,
  parsedAtOnceBytes,
  smallDeliveryBytes,
  unsignedDeliveries,
} from '../../../policy/body-budgets.ts'
import { CodedError } from '../../../policy/errors.ts'
import { type DeliveryReaders, deliveryReaders } from '../../../policy/git/webhooks/app-events.ts'
import { payloadText, type ReadDelivery } from '../../../policy/git/webhooks/deliveries.ts'
import {
  duplicateReply,
  fullReply,
  queuedReply,
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
import { isDense } from '../../http/body-measure.ts'
import { readInThread } from '../../http/body-threads.ts'
import type { Exchange } from '../../http/exchange.ts'
import { failure, type Reply } from '../../http/respond.ts'
import { acceptAtOnce, within } from '../../pipeline/acceptance.ts'
import type { Services } from '../../services.ts'
import { wakeLane } from '../apps/command.ts'
import { EmptyBuckets, SenderCounts } from './senders.ts'

/** Large deliveries with a wrong signature, by address or by the owner of a webhook. */
const unsignedSenders = new SenderCounts(unsignedDeliveries)
/** Deliveries that needed a thread, by the owner of a webhook. */
const largeSenders = new SenderCounts(largeDeliveries)
const emptyBuckets = new EmptyBuckets()

/** Codes that `acceptDelivery` throws; `refusalText` words them for git providers. */
export const deliveryErrors = ['INVALID_JSON_BODY', 'UPLOAD_BUSY'] as const

export interface Reception<Kind extends keyof DeliveryReaders> {
  kind: Kind
  budget: BodyBudget
  /** The webhook, where it is known before the body. */
  source?: DeliverySource
  /** Whether the signature is right, or none is needed. */
  isSigned(body: Buffer): boolean
  wantedBranch?: string
}

/**
 * Receives the whole body and reads it. Throws KEEP_CALM for a webhook that accepts nothing at present, UPLOAD_BUSY while too many
 * large ones are in progress, and for senders of too many large ones or of wrongly signed ones; and what `readBody` throws. Large
 * bodies are charged to the sending address in any case.
 */
export async function acceptDelivery<Kind extends keyof DeliveryReaders>(
  exchange: Exchange,
  { kind, budget, source, isSigned, wantedBranch }: Reception<Kind>,
): Promise<ReturnType<DeliveryReaders[Kind]>> {
  const { request, response, address } = exchange
  const { headers } = request
  const declared = Number(headers['content-length'] ?? maxDeliveryBytes)
  const from = `address/${networkOf(address)}`
  // Anyone can make a provider send something wrongly signed: where the owner is known, only that owner's webhooks suffer.
  const sender = source ? `owner/${source.ownerId}` : from
  const waitSeconds = source ? emptyBuckets.waitSeconds(bucketKey(source), Date.now()) : 0
  if (declared > smallDeliveryBytes && waitSeconds > 0) throw tooMany(waitSeconds)
  if (declared > freeBodyBytes && unsignedSenders.isOver(sender, Date.now())) throw new CodedError('UPLOAD_BUSY')
  if (declared > parsedAtOnceBytes && source && largeSenders.isOver(sender, Date.now()))
    throw new CodedError('UPLOAD_BUSY')
  const charge = budget.charge([...new Set([from, sender])])
  try {
    inviteBody(request, response)
    const body = await readBody(request, maxDeliveryBytes, { charge })
    const inbound = { headers, wantedBranch, isSigned: isSigned(body) }
    if (!inbound.isSigned && body.length > freeBodyBytes) unsignedSenders.add(sender, Date.now())
    const isLarge = inbound.isSigned && body.length > parsedAtOnceBytes
    if (isLarge && source) largeSenders.add(sender, Date.now())
    const delivery =
      isLarge || (inbound.isSigned && isDense(jsonOf(headers, body)))
        ? await readInThread({ kind, bytes: body, inbound }, sender, exchange.signal)
        : deliveryReaders[kind]({ ...inbound, body })
    return delivery as ReturnType<DeliveryReaders[Kind]>
  } finally {
    charge.end()
  }
}

/** The JSON of a delivery, which may be a field of a form. */
function jsonOf(headers: IncomingHttpHeaders, body: Buffer): Buffer {
  const isShort = body.length <= denseJson.bytes
  return Buffer.from((isShort ? null : payloadText(headers['content-type'], body)) ?? '')
}

export async function recordIgnoredDelivery(
  source: DeliverySource,
  delivery: ReadDelivery,
  services: Services,
): Promise<WebhookReply> {
  const { kind, status, reason } = delivery.verdict as Exclude<ReadDelivery['verdict'], { kind: 'push' }>
  const reply = verdictReply(kind, status, reason)
  const by = performance.now() + acceptance.push.answerMs
  if (!(await record(source, delivery, reply, { by }, services))) throw emptied(source, bucketSeconds(source))
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
  const reply = queuedReply({ ...delivery.verdict, deploymentId })
  const push = { ...source, delivery, push: delivery.verdict, restart, deploymentId, operationId, reply }
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
  if (stored.kind === 'full') throw emptied(source, stored.waitSeconds)
  if (stored.kind === 'gone') return unknownReply
  if (stored.kind === 'unsigned')
    return recordIgnoredDelivery(source, { ...delivery, verdict: unsignedVerdict }, services)
  wakeLane(services, { id: source.appId, owner_id: source.ownerId })
  return stored.kind === 'duplicate' ? duplicateReply(stored.deploymentId) : stored.reply
}

const isTooMany = (err: unknown): boolean => err instanceof CodedError && err.code === 'KEEP_CALM'

/** Remembers that the bucket of a sender is empty. */
function emptied(source: DeliverySource, seconds: number): CodedError {
  emptyBuckets.add(bucketKey(source), seconds, Date.now())
  return tooMany(seconds)
}

const tooMany = (seconds: number): CodedError => new CodedError('KEEP_CALM', undefined, seconds)

/** One line of text, which the provider shows next to the delivery. */
export function textReply({ status, text }: WebhookReply): Reply {
  const headers: Record<string, string> = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' }
  if (status === 503) headers['Retry-After'] = '5'
  return { status, headers, body: text }
}

/** What the pipeline itself refuses, worded for git providers. */
export function refusalText(error: CodedError): Reply {
  if (error.code === 'KEEP_CALM') return failure(error, { terse: true })
  if (error.status >= 500) return textReply(unavailableReply)
  return textReply(verdictReply('refused', error.status, refusals[error.code] ?? 'the request is malformed'))
}

const refusals: Partial<Record<CodedError['code'], string>> = {
  PAYLOAD_TOO_LARGE: 'the body is over 25 MB, or its JSON has over 1,000,000 values',
  INVALID_CONTENT_TYPE: 'a content-encoded body is not accepted',
  INVALID_PARAMETERS: 'branch must be at most 256 characters, restart must be true or false',
  INVALID_JSON_BODY: 'the body did not arrive completely',
}
