import { createGunzip } from 'node:zlib'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { readCapped } from '../../lib/read-capped.ts'
import { packageCacheRules, packageSlots } from '../../policy/packages/cache-rules.ts'
import { addressKey, type Served } from './archives.ts'
import { piecesOf, type Store, type StoredFile } from './store.ts'
import type { GetUpstream, UpstreamAnswer } from './upstream.ts'

export interface WantedDocument {
  url: string
  accept: string
  /** Distinguishes what the same address stands for, such as the base of its links. */
  variant: string
  /** Makes its links lead to the cache. Throws for what is no such document. */
  rewrite(text: string, type: string, at: string): string
}

export interface DocumentsOptions {
  store: Store
  get: GetUpstream
  warn(message: string): void
}

/** What stands before a document in its file, up to the first line feed. */
interface Head {
  etag: string | null
  modified: string | null
  type: string
}

export interface StoredDocument {
  stored: StoredFile
  /** Where the document begins in its file. */
  offset: number
  type: string
}

const maxHead = 4096

/**
 * Documents of registries, which change: each is asked for again with its ETag. Requests that come meanwhile share the answer. Where the registry
 * does not answer, the stored one is used.
 */
export function documents({ store, get, warn }: DocumentsOptions) {
  const underWay = new Map<string, Promise<Served | 'stored'>>()
  const slots = new FairSlots(packageSlots.documents)

  async function refresh(key: string, wanted: WantedDocument, subject: string): Promise<Served | 'stored'> {
    const elsewhere: Served = { kind: 'elsewhere', url: wanted.url }
    const leave = await slots.enter(subject, packageCacheRules.slotSeconds * 1000)
    if (!leave) return elsewhere
    const before = await openDocument(store, key, subject)
    await before?.stored.file.close()
    try {
      const signal = deadlineSignal(packageCacheRules.documentSeconds * 1000)
      const headers: Record<string, string> = { accept: wanted.accept, 'accept-encoding': 'gzip' }
      if (before?.head.etag) headers['if-none-match'] = before.head.etag
      else if (before?.head.modified) headers['if-modified-since'] = before.head.modified
      const answer = await get(wanted.url, headers, signal)
      if (answer.status === 200) {
        await replace(key, wanted, answer)
        return 'stored'
      }
      await answer.body.dump()
      if (answer.status === 304 && before) return 'stored'
      if (answer.status >= 400 && answer.status < 500 && answer.status !== 429)
        return { kind: 'status', status: answer.status }
      throw new Error(`it answers with ${answer.status}`)
    } catch (error) {
      warn(`${new URL(wanted.url).host}: ${(error as Error).message}`)
      return before ? 'stored' : elsewhere
    } finally {
      leave()
    }
  }

  async function replace(key: string, wanted: WantedDocument, answer: UpstreamAnswer): Promise<void> {
    const isPacked = answer.header('content-encoding') === 'gzip'
    const body = isPacked ? answer.body.pipe(createGunzip()) : answer.body
    if (isPacked) answer.body.once('error', error => body.destroy(error))
    const bytes = await readCapped(body, packageCacheRules.documentBytes)
    if (bytes === null) throw new Error('a document is too large')
    const length = answer.header('content-length')
    if (!isPacked && length !== null && Number(length) !== bytes.length) throw new Error('a document is not whole')
    const type = /^[\x20-\x7e]{1,200}$/.exec(answer.header('content-type') ?? '')?.[0] ?? 'application/octet-stream'
    const text = wanted.rewrite(bytes.toString('utf8'), type, answer.url)
    const head: Head = { etag: short(answer.header('etag')), modified: short(answer.header('last-modified')), type }
    const draft = await store.draft(key, 2 * packageCacheRules.documentBytes)
    try {
      await draft.write(Buffer.from(`${JSON.stringify(head)}\n${text}`))
      await draft.commit()
    } finally {
      await draft.close()
    }
  }

  /** The document as the registry has it now. */
  return async (wanted: WantedDocument, subject: string): Promise<Served | (StoredDocument & { kind: 'document' })> => {
    const key = addressKey('document', wanted.url, wanted.accept, wanted.variant)
    const refreshing = underWay.get(key) ?? refresh(key, wanted, subject).finally(() => underWay.delete(key))
    underWay.set(key, refreshing)
    const outcome = await refreshing
    if (outcome !== 'stored') return outcome
    const found = await openDocument(store, key, subject)
    return found ? { kind: 'document', ...found, type: found.head.type } : { kind: 'elsewhere', url: wanted.url }
  }
}

const short = (text: string | null): string | null => (text !== null && text.length <= 500 ? text : null)

async function openDocument(
  store: Store,
  key: string,
  subject: string,
): Promise<(Omit<StoredDocument, 'type'> & { head: Head }) | null> {
  const stored = await store.find(key, null, subject)
  if (!stored) return null
  const { buffer, bytesRead } = await stored.file.read(Buffer.alloc(maxHead), 0, maxHead, 0)
  const end = buffer.subarray(0, bytesRead).indexOf(10)
  return { stored, offset: end + 1, head: JSON.parse(buffer.toString('utf8', 0, end)) as Head }
}

/** The text of an open document, which is closed. */
export async function textOf({ stored, offset }: StoredDocument): Promise<string> {
  try {
    const bytes = await readCapped(piecesOf(stored.file, offset), 2 * packageCacheRules.documentBytes)
    return bytes?.toString('utf8') ?? ''
  } finally {
    await stored.file.close()
  }
}
