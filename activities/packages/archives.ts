import { hash } from 'node:crypto'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { packageCacheRules, packageSlots } from '../../policy/packages/cache-rules.ts'
import type { Digest } from '../../policy/packages/documents.ts'
import { contentHash } from './content-hash.ts'
import { Download, type Served } from './served.ts'
import type { Asker, Draft, Store } from './store.ts'
import { closeAnswer, type GetUpstream } from './upstream.ts'
import type { Warn } from './warnings.ts'

export interface WantedArchive {
  url: string
  /** Of its content, if it is known without a further request. */
  digest: Digest | null
  /** In which the registry names one. */
  algorithms: readonly Digest['algorithm'][]
  /** Requests it; null = the registry does not name one. */
  findDigest(asker: Asker): Promise<Digest | null>
}

export interface ArchivesOptions {
  store: Store
  get: GetUpstream
  counts: { hits: number; downloads: number }
  warn: Warn
}

/** Statuses that concern the requested file, and not the registry or the caller. */
export const absent: readonly number[] = [404, 410, 451]

export const addressKey = (...parts: string[]): string => hash('sha256', parts.join('\n'))

/** Archives that are downloaded once, stored only when they are whole and have the digest that the registry names, and verified before each use. */
export function archives({ store, get, counts, warn }: ArchivesOptions) {
  const inProgress = new Map<string, Download>()
  const downloads = new FairSlots(packageSlots.downloads)

  async function load(
    key: string,
    { url, digest, algorithms, findDigest }: WantedArchive,
    subject: string,
    download: Download,
  ) {
    const { abandoned } = download
    const slotSignal = deadlineSignal(packageCacheRules.slotSeconds * 1000, abandoned)
    const leave = await downloads.enterUntil(subject, slotSignal).catch(() => null)
    if (!leave) return download.end({ kind: 'elsewhere', url })
    const fail = (error: Error) => {
      if (!abandoned.aborted) warn(url, error)
      download.end({ kind: 'elsewhere', url })
    }
    let close = () => {}
    try {
      const signal = deadlineSignal(packageCacheRules.archiveSeconds * 1000, abandoned)
      // Two documents at most, while the end of the archive is held back and its connections are silent.
      const digestSignal = deadlineSignal(2 * packageCacheRules.documentSeconds * 1000, signal)
      const expected = digest ? Promise.resolve(digest) : findDigest({ subject, signal: digestSignal })
      expected.catch(ignoreError('reported once the archive is there'))
      const answer = await get(url, { 'accept-encoding': 'identity' }, signal)
      close = () => closeAnswer(answer)
      if (answer.status !== 200 || answer.header('content-encoding')) {
        await answer.body.dump().catch(ignoreError('only its head counts'))
        const isAbsent = absent.includes(answer.status)
        return download.end(isAbsent ? { kind: 'status', status: answer.status } : { kind: 'elsewhere', url })
      }
      const length = Number(answer.header('content-length') ?? Number.NaN)
      const draft = await store.draft(key, packageCacheRules.archiveBytes)
      try {
        if (length > packageCacheRules.archiveBytes) throw new Error(`It has ${length} bytes.`)
        await receive(answer.body, draft, {
          algorithms: digest ? [digest.algorithm] : algorithms,
          expected,
          length,
          download,
          signal,
        })
        await draft.commit()
        counts.downloads++
        download.isWhole = true
        download.end(null)
      } catch (error) {
        fail(error as Error)
      } finally {
        close()
        leave() // a slow reader does not hold a slot that others need
        await download.unused()
        await draft.close()
      }
    } catch (error) {
      fail(error as Error)
    } finally {
      close()
      leave()
    }
  }

  /** One that is stored; what is to be answered instead when no slot is free for it; null when there is none. */
  async function storedOne(key: string, { url, digest }: WantedArchive, asker: Asker): Promise<Served | null> {
    try {
      const stored = await store.find(key, digest, asker)
      return stored && { kind: 'file', stored }
    } catch {
      asker.signal.throwIfAborted()
      return { kind: 'elsewhere', url }
    }
  }

  return async (target: WantedArchive, asker: Asker): Promise<Served> => {
    const { subject, signal } = asker
    const key = addressKey('archive', target.url)
    const stored = inProgress.has(key) ? null : await storedOne(key, target, asker)
    if (stored) {
      if (stored.kind === 'file') counts.hits++
      return stored
    }
    const joined = inProgress.get(key)
    const download = joined ?? new Download()
    if (!joined) {
      inProgress.set(key, download)
      void load(key, target, subject, download).finally(() => inProgress.delete(key))
    }
    const outcome = await download.outcome(packageCacheRules.followAfterSeconds * 1000, signal)
    signal.throwIfAborted()
    if (outcome === 'later') {
      if (download.isGrowing) return { kind: 'growing', download }
      download.retain()
      return { kind: 'elsewhere', url: target.url }
    }
    if (outcome) return outcome
    if (joined) counts.hits++
    return (await storedOne(key, target, asker)) ?? { kind: 'elsewhere', url: target.url }
  }
}

interface Receiving {
  algorithms: WantedArchive['algorithms']
  /** What the registry says. */
  expected: Promise<Digest | null>
  length: number
  download: Download
  signal: AbortSignal
}

/** Rejects unless all bytes have arrived, and are those that the registry names. */
async function receive(body: AsyncIterable<Uint8Array>, draft: Draft, receiving: Receiving): Promise<void> {
  const { algorithms, length, download, signal } = receiving
  const contents = algorithms.map(algorithm => ({
    algorithm,
    hash: contentHash(algorithm),
  }))
  if (Number.isSafeInteger(length)) download.grow(draft.file, length)
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    for (const { hash } of contents) hash.update(piece)
    await draft.write(piece)
    download.receive(piece.length)
  }
  if (Number.isSafeInteger(length) && bytes !== length) throw new Error(`An archive has ${bytes} of ${length} bytes.`)
  const expected = await receiving.expected
  if (!expected) throw new Error('No document says what an archive contains.')
  const content = contents.find(({ algorithm }) => algorithm === expected.algorithm)
  if ((await content?.hash.hex(draft.file, bytes, signal)) !== expected.hex)
    throw new Error('An archive is not what its document says.')
}
