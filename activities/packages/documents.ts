import { FairSlots } from '../../lib/async/fair-slots.ts'
import { deadlineSignal, unlessAborted } from '../../lib/async/timeout.ts'
import { readCapped } from '../../lib/read-capped.ts'
import { packageCacheRules, packageSlots } from '../../policy/packages/cache-rules.ts'
import { addressKey } from './archives.ts'
import { contentOf, type Head, headBytes, headOf, openDocument } from './document-files.ts'
import type { Served } from './served.ts'
import type { Asker, Store } from './store.ts'
import { closeAnswer, type GetUpstream, type UpstreamAnswer } from './upstream.ts'
import type { Warn } from './warnings.ts'

export interface WantedDocument {
  url: string
  accept: string
  /** Distinguishes what the same address stands for, such as the base of its links. */
  variant: string
  /** Makes its links lead to the cache. Throws for what is no such document. Missing: it has none, and any content is one. */
  rewrite?(text: string, type: string, at: string): string
  /** Its text where that follows from a stored archive, without a request to the registry; null where it does not. */
  derive?(asker: Asker): Promise<string | null>
}

export interface DocumentsOptions {
  store: Store
  get: GetUpstream
  warn: Warn
}

type Outcome = Served | 'stored'

/** A request that several steps wait for; `controller` aborts when the last of them has left. */
interface Refreshing {
  outcome: Promise<Outcome>
  waiting: number
  controller: AbortController
}

/**
 * Documents of registries, which change: each is requested again with its ETag. Requests that come meanwhile share the answer. Where the registry
 * does not answer, the stored one is used.
 */
export function documents({ store, get, warn }: DocumentsOptions) {
  const inProgress = new Map<string, Refreshing>()
  const slots = new FairSlots(packageSlots.documents)

  async function refresh(
    key: string,
    target: WantedDocument,
    { subject, signal: callersSignal }: Asker,
  ): Promise<Outcome> {
    const slotSignal = deadlineSignal(packageCacheRules.slotSeconds * 1000, callersSignal)
    const leave = await slots.enterUntil(subject, slotSignal).catch(() => null)
    if (!leave) return elsewhere(target)
    const tell = (error: Error) => callersSignal.aborted || warn(target.url, error)
    let before: Head | null = null
    try {
      const signal = deadlineSignal(packageCacheRules.documentSeconds * 1000, callersSignal)
      before = await storedHead(key, { subject, signal })
      const headers: Record<string, string> = { accept: target.accept, 'accept-encoding': 'gzip' }
      if (before?.etag) headers['if-none-match'] = before.etag
      else if (before?.modified) headers['if-modified-since'] = before.modified
      const answer = await get(target.url, headers, signal)
      return await outcomeOf(answer, key, target, before, tell)
    } catch (error) {
      tell(error as Error)
      return before ? 'stored' : elsewhere(target)
    } finally {
      leave()
    }
  }

  async function storedHead(key: string, asker: Asker): Promise<Head | null> {
    const before = await openDocument(store, key, asker)
    await before?.stored.close()
    return before?.head ?? null
  }

  /** Rejects when the registry has not answered the request. */
  async function outcomeOf(
    answer: UpstreamAnswer,
    key: string,
    target: WantedDocument,
    before: Head | null,
    tell: (error: Error) => void,
  ): Promise<Outcome> {
    const { status } = answer
    if (status === 200) {
      // What the registry has now is right, even where only the step itself can take it.
      const failure = await replace(key, target, answer).catch((error: Error) => error)
      closeAnswer(answer)
      if (failure) tell(failure)
      return failure ? elsewhere(target) : 'stored'
    }
    await answer.body.dump()
    if (status === 304 && before) return 'stored'
    if (status >= 400 && status < 500 && status !== 429) return { kind: 'status', status }
    throw new Error(`it answers with ${status}`)
  }

  async function replace(key: string, target: WantedDocument, answer: UpstreamAnswer): Promise<void> {
    const isPacked = answer.header('content-encoding') === 'gzip'
    const bytes = await readCapped(contentOf(answer), packageCacheRules.documentBytes)
    if (bytes === null) throw new Error('a document is too large')
    const length = answer.header('content-length')
    if (!isPacked && length !== null && Number(length) !== bytes.length) throw new Error('a document is not whole')
    const head = headOf(answer)
    const content = target.rewrite ? Buffer.from(target.rewrite(bytes.toString('utf8'), head.type, answer.url)) : bytes
    const draft = await store.draft(key, 2 * packageCacheRules.documentBytes)
    try {
      await draft.write(Buffer.concat([headBytes(head), content]))
      await draft.commit()
    } finally {
      await draft.close()
    }
  }

  /** Resolves once the registry has answered the first caller: work continues while any caller waits for it. */
  async function refreshed(key: string, target: WantedDocument, { subject, signal }: Asker) {
    const refreshing = inProgress.get(key) ?? begin(key, target, subject)
    refreshing.waiting++
    try {
      return await unlessAborted(refreshing.outcome, signal)
    } finally {
      if (--refreshing.waiting === 0) {
        if (inProgress.get(key) === refreshing) inProgress.delete(key)
        refreshing.controller.abort()
      }
    }
  }

  function begin(key: string, target: WantedDocument, subject: string): Refreshing {
    const controller = new AbortController()
    const outcome = refresh(key, target, { subject, signal: controller.signal })
    const refreshing = { outcome, waiting: 0, controller }
    inProgress.set(key, refreshing)
    return refreshing
  }

  /** The document as the registry has it now, unless it follows from a stored archive. */
  return async (target: WantedDocument, asker: Asker): Promise<Served> => {
    const text = await target.derive?.(asker)
    if (text) return { kind: 'text', text }
    const key = addressKey('document', target.url, target.accept, target.variant)
    const outcome = await refreshed(key, target, asker)
    if (outcome !== 'stored') return outcome
    const document = await openDocument(store, key, asker).catch(() => null)
    asker.signal.throwIfAborted()
    return document ? { kind: 'document', etag: null, ...document } : elsewhere(target)
  }
}

const elsewhere = ({ url }: WantedDocument): Served => ({ kind: 'elsewhere', url })
