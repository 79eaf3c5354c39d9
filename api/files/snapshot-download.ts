import { findGoodSnapshot, type SnapshotRow } from '../../db/snapshots/snapshots.ts'
import { type LinkedSnapshot, linkSecret, readLink } from '../../policy/apps/snapshot-links.ts'
import { ownCounters } from '../../policy/counters.ts'
import { linkVisits } from '../../policy/limits.ts'
import { networkOf } from '../http/address.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import { withinDeadline } from '../pipeline/deadline.ts'
import type { Services } from '../services.ts'
import { sendBody } from './send-body.ts'
import { notFound } from './text-answers.ts'

/**
 * `GET` and `HEAD /applications/<owner id>/<name>.zip?<key>`: the archive behind a signed link, whole or one range of it. The link is
 * the credential. Visits have a budget of their own, so that a download in many ranges does not use up the API's.
 */
export async function downloadSnapshot(exchange: Exchange, services: Services): Promise<Reply> {
  const link = readLink(linkSecret(services.config.masterKey), exchange.request.url ?? '', new Date())
  if (!link) return notFound
  const visit = countVisit(link, exchange.address, services)
  const row = await withinDeadline(visit.then(() => findGoodSnapshot(services.db, link.version, link.name)))
  return row?.owner_id === link.ownerId ? send(row, exchange, services) : notFound
}

async function countVisit(link: LinkedSnapshot, address: string, { limiter, config }: Services): Promise<void> {
  const visited = {
    link: link.version,
    address: networkOf(address),
    user: { id: link.ownerId },
    scale: config.rateLimitScale,
  }
  await limiter.admit(ownCounters('links.snapshot', linkVisits.snapshot, visited))
}

/**
 * The ETag is the id of the segment, whose bytes never change. The archive of a version does when a later one has the same files, and a
 * download that goes on then must not join the two.
 */
function send(row: SnapshotRow, exchange: Exchange, { store }: Services): Promise<Reply> {
  return sendBody(exchange, {
    size: Number(row.size),
    etag: row.segment_id ?? row.id,
    modified: row.finished_at ?? row.created_at,
    headers: {
      'Content-Type': 'application/zip',
      'Content-Disposition': `attachment; filename="${row.name}.zip"`,
      'Cache-Control': 'private, no-transform',
      'X-Content-Type-Options': 'nosniff',
    },
    open: (range, signal) => store.lend(row.segment_id ?? '', range?.from, range?.to, signal()),
  })
}
