import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { readCapped } from '../../lib/read-capped.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { piecesOf } from './pieces.ts'
import type { Asker, Store, StoredFile } from './store.ts'
import type { UpstreamAnswer } from './upstream.ts'

/** What stands before a document in its file, up to the first line feed. */
export interface Head {
  etag: string | null
  modified: string | null
  type: string
}

export interface StoredDocument {
  stored: StoredFile
  /** Where the document begins in its file. */
  offset: number
  head: Head
}

export const maxHead = 4096

const short = (text: string | null): string | null => (text !== null && text.length <= 500 ? text : null)

/** What an answer says about the document in it. */
export function headOf(answer: UpstreamAnswer): Head {
  const type = /^[\x20-\x7e]{1,200}$/.exec(answer.header('content-type') ?? '')?.[0] ?? 'application/octet-stream'
  return { etag: short(answer.header('etag')), modified: short(answer.header('last-modified')), type }
}

/** The first bytes of a document's file. */
export const headBytes = (head: Head): Buffer => Buffer.from(`${JSON.stringify(head)}\n`)

/** The document in an answer, unpacked where it is packed with gzip. */
export function contentOf(answer: UpstreamAnswer): Readable {
  if (answer.header('content-encoding') !== 'gzip') return answer.body
  const body = answer.body.pipe(createGunzip())
  answer.body.once('error', error => body.destroy(error))
  return body
}

/** Opens a stored document; null without one. Rejects as the store. */
export async function openDocument(store: Store, key: string, asker: Asker): Promise<StoredDocument | null> {
  const stored = await store.find(key, null, asker)
  if (!stored) return null
  try {
    const { buffer, bytesRead } = await stored.file.read(Buffer.alloc(maxHead), 0, maxHead, 0)
    const end = buffer.subarray(0, bytesRead).indexOf(10)
    return { stored, offset: end + 1, head: JSON.parse(buffer.toString('utf8', 0, end)) as Head }
  } catch (error) {
    await stored.close()
    throw error
  }
}

/** The text of an open document, which is closed. */
export async function documentText({ stored, offset }: StoredDocument): Promise<string> {
  try {
    const bytes = await readCapped(piecesOf(stored.file, offset), 2 * packageCacheRules.documentBytes)
    return bytes?.toString('utf8') ?? ''
  } finally {
    await stored.close()
  }
}
