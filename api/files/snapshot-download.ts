import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { findGood, type SnapshotRow } from '../../db/snapshots.ts'
import { type ByteRange, rangeOf } from '../../policy/byte-range.ts'
import { countersOf } from '../../policy/limits.ts'
import { linkSecret, readLink } from '../../policy/snapshot-links.ts'
import type { Exchange } from '../call.ts'
import type { Parts } from '../parts.ts'
import { type Reply, streamed, toApiError } from '../respond.ts'

const text = (status: number, body: string, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...headers },
  body,
})

/** A client that takes nothing for so long is cut. */
const idleMs = 30_000

/** Whatever is wrong with a link, the answer is the same. */
const notFound = text(404, 'Not found\n')

/**
 * `GET` and `HEAD /applications/<owner id>/<name>.zip?<key>`: the archive behind a signed link, whole or one range of it. The
 * link is the credential; only the source address is counted.
 */
export async function downloadSnapshot(exchange: Exchange, parts: Parts): Promise<Reply> {
  const { request } = exchange
  if (request.method !== 'GET' && request.method !== 'HEAD') return notFound
  try {
    await countAddress(exchange.address, parts)
    const row = await linkedSnapshot(request.url ?? '', parts)
    return row ? await send(row, exchange, parts) : notFound
  } catch (thrown) {
    const { status, retryAfterSeconds } = toApiError(thrown)
    if (status >= 500) parts.log.error({ err: thrown, requestId: exchange.requestId }, 'a snapshot could not be sent')
    if (exchange.response.headersSent) return cut(exchange)
    return text(status, `${toApiError(thrown).message}\n`, { 'Retry-After': String(retryAfterSeconds ?? 5) })
  }
}

async function countAddress(address: string, { limiter, config, isInside }: Parts): Promise<void> {
  const outsideAddress = isInside(address) ? undefined : address
  const { rateLimitScale: scale, rateLimitBlockSeconds: budgetBlockSeconds } = config
  await limiter.admit(countersOf('files', [], { outsideAddress, scale, budgetBlockSeconds }))
}

async function linkedSnapshot(url: string, { config, db }: Parts): Promise<SnapshotRow | undefined> {
  const link = readLink(linkSecret(config.masterKey), url, new Date())
  const row = link ? await findGood(db, link.version, link.name) : undefined
  return row?.owner_id === link?.ownerId ? row : undefined
}

async function send(
  row: SnapshotRow,
  { request, response, requestId, gone }: Exchange,
  { store }: Parts,
): Promise<Reply> {
  const size = Number(row.size)
  const etag = `"${row.id}"`
  const range = sameBody(request.headers['if-range']?.toString(), etag) ? rangeOf(request.headers.range, size) : null
  if (range === 'beyond') return text(416, 'Nothing lies in this range.\n', { 'Content-Range': `bytes */${size}` })
  // Opened before anything is answered: a body that is gone is a failure and not an empty file.
  const body = request.method === 'GET' ? await open(row, range, store, gone) : null
  response.writeHead(range ? 206 : 200, {
    'Content-Type': 'application/zip',
    'Content-Length': range ? range.to - range.from + 1 : size,
    ...(range && { 'Content-Range': `bytes ${range.from}-${range.to}/${size}` }),
    'Content-Disposition': `attachment; filename="${row.name}.zip"`,
    'Accept-Ranges': 'bytes',
    'Cache-Control': 'private, no-transform',
    ETag: etag,
    'Last-Modified': (row.finished_at ?? row.created_at).toUTCString(),
    'X-Content-Type-Options': 'nosniff',
    'X-Request-Id': requestId,
  })
  response.setTimeout(idleMs, () => response.destroy())
  if (body) await pipeline(body, response).catch(error => gone.aborted || Promise.reject(error))
  else response.end()
  return streamed
}

function open(
  { segment_id }: SnapshotRow,
  range: ByteRange | null,
  store: Parts['store'],
  gone: AbortSignal,
): Promise<Readable> {
  return store.get(segment_id ?? '', range?.from, range?.to, gone)
}

/** A version's body never changes, so its tag is as good as a date. */
const sameBody = (ifRange: string | undefined, etag: string): boolean => ifRange === undefined || ifRange === etag

/** A torn download must not look whole. */
function cut({ response }: Exchange): Reply {
  response.destroy()
  return streamed
}
