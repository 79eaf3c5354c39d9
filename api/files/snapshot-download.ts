import { findGood, type SnapshotRow } from '../../db/snapshots.ts'
import { countersOf } from '../../policy/limits.ts'
import { linkSecret, readLink } from '../../policy/snapshot-links.ts'
import { networkOf } from '../address.ts'
import type { Exchange } from '../call.ts'
import type { Parts } from '../parts.ts'
import type { Reply } from '../respond.ts'
import { sendBody } from './send-body.ts'
import { notFound } from './text-answers.ts'

/**
 * `GET` and `HEAD /applications/<owner id>/<name>.zip?<key>`: the archive behind a signed link, whole or one range of it. The
 * link is the credential; only the source address is counted.
 */
export async function downloadSnapshot(exchange: Exchange, parts: Parts): Promise<Reply> {
  await countAddress(exchange.address, parts)
  const row = await linkedSnapshot(exchange.request.url ?? '', parts)
  return row ? send(row, exchange, parts) : notFound
}

async function countAddress(address: string, { limiter, config, isInside }: Parts): Promise<void> {
  const outsideAddress = isInside(address) ? undefined : networkOf(address)
  const { rateLimitScale: scale, rateLimitBlockSeconds: budgetBlockSeconds } = config
  await limiter.admit(countersOf('files', [], { outsideAddress, scale, budgetBlockSeconds }))
}

async function linkedSnapshot(url: string, { config, db }: Parts): Promise<SnapshotRow | undefined> {
  const link = readLink(linkSecret(config.masterKey), url, new Date())
  const row = link ? await findGood(db, link.version, link.name) : undefined
  return row?.owner_id === link?.ownerId ? row : undefined
}

/** A version's body never changes, so its id is its tag. */
function send(row: SnapshotRow, exchange: Exchange, { store }: Parts): Promise<Reply> {
  return sendBody(exchange, {
    size: Number(row.size),
    etag: row.id,
    modified: row.finished_at ?? row.created_at,
    headers: {
      'Content-Type': 'application/zip',
      'Content-Disposition': `attachment; filename="${row.name}.zip"`,
      'Cache-Control': 'private, no-transform',
      'X-Content-Type-Options': 'nosniff',
    },
    open: (range, gone) => store.lend(row.segment_id ?? '', range?.from, range?.to, gone()),
  })
}
