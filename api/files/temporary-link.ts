import { ownCounters } from '../../policy/counters.ts'
import { linkVisits } from '../../policy/limits.ts'
import { objectHeaders, privateHeaders } from '../../policy/objects/object-headers.ts'
import { readLinkToken } from '../../policy/objects/object-links.ts'
import { objectName } from '../../policy/objects/object-names.ts'
import { networkOf } from '../http/address.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import { withinDeadline } from '../pipeline/deadline.ts'
import type { Services } from '../services.ts'
import { openForAnswer, sendableObject } from './object-download.ts'
import { sendBody } from './send-body.ts'
import { notFound, reads } from './text-answers.ts'

/** `GET` and `HEAD /d/<token>`: the object behind a temporary link, as long as it is still the object that the link was created for. */
export async function followLink(token: string, exchange: Exchange, services: Services): Promise<Reply> {
  const link = reads(exchange) ? readLinkToken(services.config.sealKeys, token, new Date()) : null
  const name = link && objectName(link.id)
  if (!link || !name) return notFound
  const address = networkOf(exchange.address)
  const scale = services.config.rateLimitScale
  const visited = { link: token.slice(-43), address, user: { id: name.ownerId }, scale }
  const counters = ownCounters('links.temporary', linkVisits.temporary, visited)
  const opened = await withinDeadline(
    services.limiter.admit(counters).then(() => openForAnswer(exchange, services.db, name)),
  )
  if (opened?.object.birth !== link.birth) return notFound
  return sendBody(
    exchange,
    sendableObject(opened, services, { ...objectHeaders(opened.object, link), ...privateHeaders }),
  )
}
