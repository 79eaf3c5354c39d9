import { hash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { packageCacheRules, packageSlots } from '../../policy/packages/cache-rules.ts'
import type { Digest } from '../../policy/packages/documents.ts'
import { contentHash } from './content-hash.ts'
import type { StoredDocument } from './document-files.ts'
import type { Asker, Draft, Store, StoredFile } from './store.ts'
import { closeAnswer, type GetUpstream } from './upstream.ts'
import type { Warn } from './warnings.ts'

/** What a step that has requested something gets. */
export type Served =
  | { kind: 'file'; stored: StoredFile }
  /** With an ETag where a step may say which one it has: links of other documents are those of one cache. */
  | ({ kind: 'document'; etag: string | null } & StoredDocument)
  | { kind: 'growing'; download: Download }
  | { kind: 'status'; status: number }
  | { kind: 'text'; text: string }
  /** The registry itself has it. */
  | { kind: 'elsewhere'; url: string }

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

/** Statuses that say something about what was requested, and not about the registry or who asks. */
export const absent: readonly number[] = [404, 410, 451]

export const addressKey = (...parts: string[]): string => hash('sha256', parts.join('\n'))

/** Archives that are downloaded once, stored only when they are whole and have the digest that the registry names, and verified before each use. */
export function archives({ store, get, counts, warn }: ArchivesOptions) {
  const underWay = new Map<string, Download>()
  const downloads = new FairSlots(packageSlots.downloads)

  async function load(
    key: string,
    { url, digest, algorithms, findDigest }: WantedArchive,
    subject: string,
    download: Download,
  ) {
    const leave = await downloads.enter(subject, packageCacheRules.slotSeconds * 1000)
    if (!leave) return download.end({ kind: 'elsewhere', url })
    const fail = (error: Error) => {
      warn(url, error)
      download.end({ kind: 'elsewhere', url })
    }
    let close = () => {}
    try {
      const signal = deadlineSignal(packageCacheRules.archiveSeconds * 1000)
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
        leave() // whoever reads slowly does not keep the slot of another
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

  return async (wanted: WantedArchive, asker: Asker): Promise<Served> => {
    const { subject, signal } = asker
    const key = addressKey('archive', wanted.url)
    const stored = underWay.has(key) ? null : await storedOne(key, wanted, asker)
    if (stored) {
      if (stored.kind === 'file') counts.hits++
      return stored
    }
    const joined = underWay.get(key)
    const download = joined ?? new Download()
    if (!joined) {
      underWay.set(key, download)
      void load(key, wanted, subject, download).finally(() => underWay.delete(key))
    }
    const outcome = await download.outcome(packageCacheRules.followAfterSeconds * 1000, signal)
    signal.throwIfAborted()
    if (outcome === 'later')
      return download.isGrowing ? { kind: 'growing', download } : { kind: 'elsewhere', url: wanted.url }
    if (outcome) return outcome
    if (joined) counts.hits++
    return (await storedOne(key, wanted, asker)) ?? { kind: 'elsewhere', url: wanted.url }
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

/** An archive or a list that is being downloaded, which steps may read meanwhile. */
export class Download extends EventEmitter {
  received = 0
  /** Of all of it in bytes; null = unknown. */
  size: number | null = null
  isWhole = false
  #file: Draft['file'] | null = null
  #offset = 0
  #readers = 0
  #outcome: { value: Served | null } | null = null

  constructor() {
    super()
    this.setMaxListeners(0)
  }

  /** From now on it can be read; it begins at `offset` of the file. Its last bytes are held back until it is whole, unless its size is unknown. */
  grow(file: Draft['file'], size: number | null, offset = 0): void {
    this.#file = file
    this.#offset = offset
    this.size = size
    this.emit('progress')
  }

  receive(bytes: number): void {
    this.received += bytes
    this.emit('progress')
  }

  get isGrowing(): boolean {
    return this.#file !== null
  }

  /** What waiting steps get instead; null = the archive is stored. */
  end(value: Served | null): void {
    this.#outcome ??= { value }
    this.emit('progress')
  }

  /** The outcome, or `later` when it is not there in time, or the caller's signal aborts. */
  async outcome(waitMs: number, gone: AbortSignal): Promise<Served | null | 'later'> {
    const signal = deadlineSignal(waitMs, gone)
    while (!this.#outcome && !signal.aborted)
      await once(this, 'progress', { signal }).catch(ignoreError('its time is over'))
    return this.#outcome ? this.#outcome.value : 'later'
  }

  /** The bytes as they arrive; the last ones once all are verified. Throws when they never will be, or when the signal aborts. */
  async *bytes(signal: AbortSignal): AsyncGenerator<Buffer> {
    this.#readers++
    try {
      for (let at = 0; ; ) {
        const { heldBytes } = packageCacheRules
        const open = this.isWhole || this.size === null ? this.received : this.size - heldBytes
        const ready = Math.min(this.received, open)
        if (ready <= at) {
          if (this.isWhole) return
          if (this.#outcome) throw new Error('The download has failed.')
          await once(this, 'progress', { signal })
          continue
        }
        const length = Math.min(heldBytes, ready - at)
        const { bytesRead, buffer } = await this.#file!.read(Buffer.allocUnsafe(length), 0, length, this.#offset + at)
        if (bytesRead === 0) throw new Error('The file is shorter than it was.')
        at += bytesRead
        yield buffer.subarray(0, bytesRead)
      }
    } finally {
      this.#readers--
      this.emit('unused')
    }
  }

  /** Resolves once nothing reads it any more. */
  async unused(): Promise<void> {
    while (this.#readers > 0) await once(this, 'unused')
  }
}
