import { openObject } from '../../db/objects/objects.ts'
import { objectHeaders, publicHeaders } from '../../policy/objects/object-headers.ts'
import { pathOf, publicNameOf } from '../../policy/objects/object-urls.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import { withinDeadline } from '../pipeline/deadline.ts'
import type { Services } from '../services.ts'
import { sendableObject } from './object-download.ts'
import { sendBody } from './send-body.ts'
import { notFound, reads, text } from './text-answers.ts'

/**
 * The surface of public files: `/pub/<account>/<key>`, legacy files at `/<account>/<key>`, and the health check. Nothing is kept
 * here, so that a reader sees a change at once; what caches on the way may keep, the headers say.
 */
export async function answerPublic(exchange: Exchange, services: Services): Promise<Reply> {
  const { url = '' } = exchange.request
  if (!reads(exchange)) return notFound
  if (pathOf(url) === 'pub/status') return text(200, 'OK')
  const name = publicNameOf(url)
  const found = name && (await withinDeadline(openObject(services.db, name)))
  if (!found) return notFound
  const { object } = found
  return sendBody(exchange, sendableObject(found, services, { ...objectHeaders(object), ...publicHeaders(object) }))
}
