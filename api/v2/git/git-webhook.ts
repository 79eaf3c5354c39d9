import { z } from 'zod'
import type { DeliverySource } from '../../../db/git/deliveries.ts'
import { type FoundWebhook, findWebhook } from '../../../db/git/webhooks.ts'
import { bodyBudgets, maxDeliveryBytes } from '../../../policy/body-budgets.ts'
import { isIssuedAddress } from '../../../policy/git/webhooks/addresses.ts'
import { malformedReply, unknownReply } from '../../../policy/git/webhooks/replies.ts'
import { isSigned } from '../../../policy/git/webhooks/signatures.ts'
import { BodyBudget } from '../../http/body-budget.ts'
import { withinDeadline } from '../../pipeline/deadline.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import {
  acceptDelivery,
  acceptPush,
  deliveryErrors,
  recordIgnoredDelivery,
  refusalText,
  textReply,
} from './git-deliveries.ts'

const budget = new BodyBudget(bodyBudgets.webhooks)

/** Contract 6.7: 200 is sent only after delivery, deployment and operation are committed. */
export const receivePush = endpoint({
  name: 'git.webhook',
  method: 'POST',
  path: '/v2/git/webhook/{webhook}',
  summary: 'Receive a push from a git provider',
  auth: 'public',
  uncounted: true,
  envelope: false,
  maxBodyBytes: maxDeliveryBytes,
  query: z.object({ branch: z.string().max(256).optional(), restart: z.enum(['true', 'false', '1', '0']).optional() }),
  refusal: refusalText,
  errors: deliveryErrors,
  async handle({ exchange, query }, services) {
    const address = exchange.path.webhook ?? ''
    if (!/^[0-9a-f]{64}$/.test(address)) return textReply(malformedReply)
    // A made-up address costs no statement: anyone may send here, and no limit counts them.
    const isIssued = isIssuedAddress(services.config, address)
    if (!isIssued && !(await services.earlier.isAddress(address))) return textReply(unknownReply)
    const startedAt = performance.now()
    const webhook = await withinDeadline(findWebhook(services.db, services.config.sealKeys, address))
    if (!webhook) return textReply(unknownReply)
    const spentMs = performance.now() - startedAt
    const { secret } = webhook
    const { headers } = exchange.request
    const source = sourceOf(webhook, services)
    const delivery = await acceptDelivery(exchange, {
      kind: 'webhook',
      budget,
      source,
      // Without a secret everyone who knows the address may push.
      isSigned: body => secret === null || isSigned(secret, headers, body, new Date()),
      wantedBranch: query.branch || undefined,
    })
    if (delivery.verdict.kind !== 'push') return textReply(await recordIgnoredDelivery(source, delivery, services))
    const restart = query.restart !== 'false' && query.restart !== '0'
    return textReply(await acceptPush(source, delivery, { restart, spentMs }, services))
  },
})

const sourceOf = ({ id, ...webhook }: FoundWebhook, { config }: Services): DeliverySource => ({
  webhookId: id,
  addressHash: webhook.addressHash,
  sealedSecret: webhook.sealedSecret,
  isSignedFor: webhook.isSignedFor,
  appId: webhook.appId,
  ownerId: webhook.ownerId,
  limitScale: config.rateLimitScale,
})
