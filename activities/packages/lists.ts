import { createHash } from 'node:crypto'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { packageCacheRules, packageSlots } from '../../policy/packages/cache-rules.ts'
import { absent, addressKey } from './archives.ts'
import { contentOf, headBytes, headOf, maxHead, openDocument, type StoredDocument } from './document-files.ts'
import { piecesOf } from './pieces.ts'
import { Download, type Served } from './served.ts'
import type { Asker, Draft, Store } from './store.ts'
import { closeAnswer, type GetUpstream, type UpstreamAnswer } from './upstream.ts'
import type { Warn } from './warnings.ts'

export interface ListsOptions {
  store: Store
  get: GetUpstream
  warn: Warn
}

/**
 * Long documents without links, which grow at their end, such as that of all versions of all gems. They are stored as they arrive, and never in
 * memory. Only what was added is requested; the registry's digest of the whole proves that it fits. Requests that come meanwhile share it.
 */
export function lists({ store, get, warn }: ListsOptions) {
  const inProgress = new Map<string, Download>()
  const slots = new FairSlots(packageSlots.documents)

  async function refresh(key: string, url: string, subject: string, download: Download): Promise<void> {
    const leave = await slots.enter(subject, packageCacheRules.slotSeconds * 1000)
    if (!leave) return download.end({ kind: 'elsewhere', url })
    const signal = deadlineSignal(packageCacheRules.archiveSeconds * 1000)
    const before = await openDocument(store, key, { subject, signal }).catch(() => null)
    try {
      const isCurrent = before && (await extend(key, url, before, signal))
      download.end(isCurrent ? null : await replace(key, url, download, signal))
    } catch (error) {
      warn(url, error as Error)
      download.end(before ? null : { kind: 'elsewhere', url })
    } finally {
      await before?.stored.close()
      leave()
    }
  }

  /** Whether the stored one is what the registry has, now that what was added to it since is there. */
  async function extend(key: string, url: string, before: StoredDocument, signal: AbortSignal): Promise<boolean> {
    const { stored, offset, head } = before
    const last = stored.bytes - 1 // requested again, so that the range is never empty
    if (last < offset) return false
    const headers = { 'accept-encoding': 'identity', range: `bytes=${last - offset}-` }
    const answer = await get(url, { ...headers, ...(head.etag && { 'if-none-match': head.etag }) }, signal)
    try {
      const expected = wholeDigest(answer)
      if (answer.status !== 206 || !expected) return answer.status === 304
      const extended = drafted(key, async draft => {
        const hash = createHash('sha256')
        await draft.write(headBytes(headOf(answer)))
        for (const pieces of [piecesOf(stored.file, offset, last), answer.body])
          for await (const piece of pieces) {
            hash.update(piece)
            await draft.write(piece)
          }
        return hash.digest('base64') === expected
      })
      return await extended.catch(() => false)
    } finally {
      closeAnswer(answer)
    }
  }

  /** Requests all of it, which steps may read meanwhile. Resolves to what they get instead; null = it is stored. Rejects when the registry has not answered. */
  async function replace(key: string, url: string, download: Download, signal: AbortSignal): Promise<Served | null> {
    const answer = await get(url, { 'accept-encoding': 'gzip' }, signal)
    try {
      if (absent.includes(answer.status)) return { kind: 'status', status: answer.status }
      if (answer.status !== 200) throw new Error(`it answers with ${answer.status}`)
      // What the registry has now is right, even where only the step itself can take it.
      const failure = await receive(key, answer, download).catch((error: Error) => error)
      if (failure) warn(url, failure)
      return failure ? { kind: 'elsewhere', url } : null
    } finally {
      closeAnswer(answer)
    }
  }

  async function receive(key: string, answer: UpstreamAnswer, download: Download): Promise<null> {
    const isWhole = await drafted(
      key,
      async draft => {
        const head = headBytes(headOf(answer))
        const hash = createHash('sha256')
        await draft.write(head)
        download.grow(draft.file, null, head.length)
        for await (const piece of contentOf(answer)) {
          hash.update(piece)
          await draft.write(piece)
          download.receive(piece.length)
        }
        const length = answer.header('content-encoding') ? null : answer.header('content-length')
        const expected = wholeDigest(answer)
        const actual = hash.digest('base64')
        return (length === null || Number(length) === download.received) && (expected ?? actual) === actual
      },
      download,
    )
    if (!isWhole) throw new Error('a list is not whole')
    return null
  }

  /** Stores what is written if that says so. */
  async function drafted(
    key: string,
    write: (draft: Draft) => Promise<boolean>,
    download: Download | null = null,
  ): Promise<boolean> {
    const draft = await store.draft(key, maxHead + packageCacheRules.listBytes)
    try {
      const isRight = await write(draft)
      if (isRight) await draft.commit()
      if (download) download.isWhole = isRight
      return isRight
    } finally {
      const close = async () => {
        await download?.unused()
        await draft.close()
      }
      void close()
    }
  }

  async function stored(key: string, asker: Asker): Promise<Served | null> {
    const document = await openDocument(store, key, asker).catch(() => null)
    asker.signal.throwIfAborted()
    return document && { kind: 'document', etag: document.head.etag, ...document }
  }

  return async (url: string, asker: Asker): Promise<Served> => {
    const key = addressKey('list', url)
    const download = inProgress.get(key) ?? new Download()
    if (!inProgress.has(key)) {
      inProgress.set(key, download)
      void refresh(key, url, asker.subject, download).finally(() => inProgress.delete(key))
    }
    const outcome = await download.outcome(packageCacheRules.followAfterSeconds * 1000, asker.signal)
    asker.signal.throwIfAborted()
    if (outcome !== null && outcome !== 'later') return outcome
    if (outcome === 'later' && download.isGrowing) return { kind: 'growing', download }
    return (await stored(key, asker)) ?? { kind: 'elsewhere', url }
  }
}

/** The SHA-256 of a whole document in base64, as the registry names it also in an answer with a part; null without one. */
function wholeDigest(answer: UpstreamAnswer): string | null {
  const text = answer.header('repr-digest') ?? answer.header('digest') ?? ''
  return /(?:^|,)\s*sha-256=[:"]?([A-Za-z0-9+/]{43}=)/i.exec(text)?.[1] ?? null
}
