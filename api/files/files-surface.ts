import { pathOf } from '../../policy/objects/object-urls.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import type { Services } from '../services.ts'
import { visitShare } from './share-visit.ts'
import { downloadSnapshot } from './snapshot-download.ts'
import { followLink } from './temporary-link.ts'
import { notFound, reads } from './text-answers.ts'

/** The surface for files that are accessed by a link: temporary links, shares and snapshots. */
export async function answerFiles(exchange: Exchange, services: Services): Promise<Reply> {
  const [kind, credential = '', ...rest] = pathOf(exchange.request.url ?? '').split('/')
  if (kind === 'd' || kind === 's') {
    if (rest.length > 0) return notFound
    return kind === 'd' ? followLink(credential, exchange, services) : visitShare(credential, exchange, services)
  }
  return reads(exchange) ? downloadSnapshot(exchange, services) : notFound
}
