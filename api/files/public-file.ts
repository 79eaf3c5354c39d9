import { objectHeaders, publicHeaders } from '../../policy/objects/object-headers.ts'
import { pathOf, publicNameOf } from '../../policy/objects/object-urls.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import { withinDeadline } from '../pipeline/deadline.ts'
import type { Services } from '../services.ts'
import { openForAnswer, sendableObject } from './object-download.ts'
import { sendBody } from './send-body.ts'
import { notFound, reads, text } from './text-answers.ts'

/**
 * The surface of public files: `/pub/<account>/<key>`, legacy files at `/<account>/<key>`, and the health check. Nothing is cached here,
 * so that readers see a change immediately; the headers say what caches in between may store.
 */
export async function answerPublic(exchange: Exchange, services: Services): Promise<Reply> {
  const { url = '' } = exchange.request
  if (!reads(exchange)) return notFound
  if (pathOf(url) === 'pub/status') return text(200, 'OK')
  const name = publicNameOf(url)
  const opened = name && (await withinDeadline(openForAnswer(exchange, services.db, name)))
  if (!opened) return notFound
  const { object } = opened
  return sendBody(exchange, sendableObject(opened, services, { ...objectHeaders(object), ...publicHeaders(object) }))
}
