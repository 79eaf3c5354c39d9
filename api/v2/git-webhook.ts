import { z } from 'zod'
import { isUnavailable } from '../../db/database.ts'
import { type DeliverySource, noteDelivery, seenDeployment, storePush, TooLate } from '../../db/deliveries.ts'
import { type FoundWebhook, findWebhook } from '../../db/webhooks.ts'
import { ApiError } from '../../policy/errors.ts'
import { type ReadDelivery, readDelivery } from '../../policy/webhooks/deliveries.ts'
import {
  duplicateReply,
  malformedReply,
  unavailableReply,
  unknownReply,
  verdictReply,
  type WebhookReply,
} from '../../policy/webhooks/replies.ts'
import { inviteBody, readBody } from '../body.ts'
import { BodyBudget } from '../body-budget.ts'
import type { Exchange } from '../call.ts'
import { wakeLane } from '../command.ts'
import { endpoint } from '../endpoint.ts'
import type { Parts } from '../parts.ts'
import { failure, type Reply } from '../respond.ts'
import { megabyte } from '../uploads.ts'

const largestBody = 25 * megabyte
const bodies = new BodyBudget(4 * largestBody)

/** Providers hang up after 10 s; beside the time that the body took to arrive, it takes at most this. */
const answerWithinMs = 5000
/** The last moment for a commit, so that its answer still arrives in time. */
const commitWithinMs = 4000

/** Contract 6, inbound delivery: 200 is said only after delivery, deployment and operation are committed. */
export const gitWebhook = endpoint({
  name: 'git.webhook',
  method: 'POST',
  path: '/v2/git/webhook/{webhook}',
  summary: 'Receive a push from a git provider',
  auth: 'public',
  uncounted: true,
  envelope: false,
  maxBodyBytes: largestBody,
  query: z.object({ branch: z.string().max(256).optional(), restart: z.enum(['true', 'false', '1', '0']).optional() }),
  refusal: textOf,
  async handle({ exchange, query }, parts) {
    const address = exchange.path.webhook ?? ''
    if (!/^[0-9a-f]{64}$/.test(address)) return plain(malformedReply)
    const begun = performance.now()
    const webhook = await findWebhook(parts.db, parts.config.masterKey, address)
    if (!webhook) return plain(unknownReply)
    const spentMs = performance.now() - begun
    const delivery = await receive(exchange, webhook, query.branch || undefined)
    if (!delivery) return plain(unavailableReply)
    const source = sourceOf(webhook, parts)
    if (delivery.verdict.kind !== 'push') return plain(await note(source, delivery, parts))
    const restart = query.restart !== 'false' && query.restart !== '0'
    return plain(await queue(source, delivery, { restart, spentMs }, parts))
  },
})

const sourceOf = ({ id, appId, ownerId }: FoundWebhook, { config }: Parts): DeliverySource => ({
  webhookId: id,
  appId,
  ownerId,
  limitScale: config.rateLimitScale,
})

/** The body, whole and judged; undefined when too many large ones are under way. */
async function receive(
  { request, response }: Exchange,
  { secret }: FoundWebhook,
  wantedBranch: string | undefined,
): Promise<ReadDelivery | undefined> {
  const declared = Number(request.headers['content-length'] ?? largestBody)
  return bodies.with(declared, async () => {
    inviteBody(request, response)
    const body = await readBody(request, largestBody)
    return readDelivery({ headers: request.headers, body, secret, wantedBranch, now: new Date() })
  })
}

/** Nothing is to be deployed, so the answer does not depend on whether the delivery could be kept. */
async function note(source: DeliverySource, delivery: ReadDelivery, { db, log }: Parts): Promise<WebhookReply> {
  const { kind, status, reason } = delivery.verdict as Exclude<ReadDelivery['verdict'], { kind: 'push' }>
  const reply = verdictReply(kind, status, reason)
  const kept = await within(answerWithinMs, noteDelivery(db, source, delivery, reply)).catch(err => {
    log.warn({ err, app: source.appId }, 'a delivery that deployed nothing was not kept')
    return true
  })
  if (!kept) throw tooMany()
  return reply
}

/** Stores a push as a deploy and wakes its lane. What could not be stored is said to be unavailable, and may come again. */
async function queue(
  source: DeliverySource,
  delivery: ReadDelivery,
  { restart, spentMs }: { restart: boolean; spentMs: number },
  parts: Parts,
): Promise<WebhookReply> {
  if (delivery.verdict.kind !== 'push') return unavailableReply
  const begun = performance.now() - spentMs
  const left = () => answerWithinMs - (performance.now() - begun)
  const request = { ...source, delivery, push: delivery.verdict, restart, deadline: begun + commitWithinMs }
  try {
    const stored = await within(left(), storePush(parts.db, request))
    if (stored.kind === 'full') throw tooMany(stored.waitSeconds)
    if (stored.kind === 'gone') return unknownReply
    if (stored.kind === 'duplicate') return duplicateReply(stored.deploymentId)
    wakeLane(parts, { id: source.appId, owner_id: source.ownerId })
    return stored.reply
  } catch (err) {
    if (err instanceof ApiError && err.code === 'KEEP_CALM') throw err
    parts.log.error({ err, app: source.appId }, 'a push could not be stored')
    if (err instanceof TooLate || !isUnavailable(err)) return unavailableReply
    return (await inDoubt(source, delivery, left, parts)) ?? unavailableReply
  }
}

/** The line broke, perhaps after the commit: the truth is asked for as long as there is time. */
async function inDoubt(
  source: DeliverySource,
  { deliveryId }: ReadDelivery,
  left: () => number,
  parts: Parts,
): Promise<WebhookReply | undefined> {
  const seen = await within(left(), seenDeployment(parts.db, source, deliveryId)).catch(() => undefined)
  if (!seen) return undefined
  wakeLane(parts, { id: source.appId, owner_id: source.ownerId })
  return { status: 200, text: seen.replyText }
}

const tooMany = (seconds = 15): ApiError => new ApiError('KEEP_CALM', undefined, seconds)

class Late extends Error {
  override name = 'Late'
}

function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Late('not in time')), Math.max(0, milliseconds))
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

function plain({ status, text }: WebhookReply): Reply {
  const headers: Record<string, string> = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' }
  if (status === 503) headers['Retry-After'] = '5'
  return { status, headers, body: text }
}

/** What the pipeline itself refuses, in this wire's words. */
function textOf(error: ApiError): Reply {
  if (error.code === 'KEEP_CALM') return failure(error, { terse: true })
  if (error.status >= 500) return plain(unavailableReply)
  return plain(verdictReply('refused', error.status, refusals[error.code] ?? 'the request is malformed'))
}

const refusals: Partial<Record<ApiError['code'], string>> = {
  PAYLOAD_TOO_LARGE: 'the body is over 25 MB',
  INVALID_CONTENT_TYPE: 'a content-encoded body is not accepted',
  INVALID_PARAMETERS: 'branch takes at most 256 characters, restart takes true or false',
  INVALID_JSON_BODY: 'the body did not arrive whole',
}
