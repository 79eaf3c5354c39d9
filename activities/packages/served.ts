import { EventEmitter, once } from 'node:events'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import type { StoredDocument } from './document-files.ts'
import type { Draft, StoredFile } from './store.ts'

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

/** An archive or a list that is being downloaded, which steps may read meanwhile. */
export class Download extends EventEmitter {
  received = 0
  /** Of all of it in bytes; null = unknown. */
  size: number | null = null
  isWhole = false
  #file: Draft['file'] | null = null
  #offset = 0
  #readers = 0
  /** Those that wait for it or read it. */
  #users = 0
  #isRetained = false
  #ending: NodeJS.Timeout | undefined
  readonly #abandoned = new AbortController()
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

  /** Aborts once nothing has waited for it, or read it, for some seconds: a step that was ended requests nothing more. */
  get abandoned(): AbortSignal {
    return this.#abandoned.signal
  }

  /** It continues for the next step: no step can read it meanwhile. */
  retain(): void {
    this.#isRetained = true
    clearTimeout(this.#ending)
  }

  #arrive(): void {
    this.#users++
    clearTimeout(this.#ending)
  }

  #leave(): void {
    if (--this.#users > 0 || this.#outcome || this.#isRetained) return
    const abandon = () => this.#abandoned.abort(new Error('Nothing waits for the archive any more.'))
    this.#ending = setTimeout(abandon, packageCacheRules.abandonedSeconds * 1000)
  }

  /** What waiting steps get instead; null = the archive is stored. */
  end(value: Served | null): void {
    clearTimeout(this.#ending)
    this.#outcome ??= { value }
    this.emit('progress')
  }

  /** The outcome, or `later` when it is not there in time, or the caller's signal aborts. */
  async outcome(waitMs: number, callerSignal: AbortSignal): Promise<Served | null | 'later'> {
    const signal = deadlineSignal(waitMs, callerSignal)
    this.#arrive()
    while (!this.#outcome && !signal.aborted)
      await once(this, 'progress', { signal }).catch(ignoreError('its time is over'))
    this.#leave()
    return this.#outcome ? this.#outcome.value : 'later'
  }

  /** The bytes as they arrive; the last ones once all are verified. Throws when they never will be, or when the signal aborts. */
  async *bytes(signal: AbortSignal): AsyncGenerator<Buffer> {
    this.#readers++
    this.#arrive()
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
      this.#leave()
      this.emit('unused')
    }
  }

  /** Resolves once nothing reads it any more. */
  async unused(): Promise<void> {
    while (this.#readers > 0) await once(this, 'unused')
  }
}
