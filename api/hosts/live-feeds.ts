import type { LiveEvent, LiveReading } from '../../activities/live/live-feed.ts'
import type { AppRow } from '../../db/apps/apps.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { pause } from '../../lib/async/loop.ts'
import { ApiError } from '../../policy/errors.ts'
import { frameOf } from '../http/event-stream.ts'
import { firstStatusView, lineView, statusView } from '../views/realtime.ts'
import { hostFailure } from './host-call.ts'
import type { OpenLive } from './live-events.ts'
import type { NetworkRates } from './network-rates.ts'

/** Figures come once a second: a host from which nothing came for so long is lost. */
const silentMs = 15_000
const firstWithinMs = 5000
const [leastBackoffMs, mostBackoffMs] = [250, 4000]

export interface LiveListener {
  /** Whole frames, made once for all listeners. */
  take(frames: Buffer): void
  /** Why nothing comes any more: the application has no container, or its host is lost. */
  end(why: 'CONTAINER_NOT_FOUND' | 'lost'): void
}

/** The live streams that this process reads from hosts: one for each application, shared by all who listen. */
export class LiveFeeds {
  readonly #open: OpenLive
  readonly #rates: NetworkRates
  readonly #feeds = new Map<string, LiveFeed>()

  constructor(open: OpenLive, rates: NetworkRates) {
    this.#open = open
    this.#rates = rates
  }

  /** The feed of an application. The last listener who leaves ends it. */
  of(app: AppRow): LiveFeed {
    const known = this.#feeds.get(app.id)
    if (known) return known
    const feed = new LiveFeed(app, this.#open, this.#rates, () => {
      if (this.#feeds.get(app.id) === feed) this.#feeds.delete(app.id)
    })
    this.#feeds.set(app.id, feed)
    return feed
  }
}

/** One application's feed. A broken line is taken up again; after 15 s without a word it ends. */
export class LiveFeed {
  readonly #app: AppRow
  readonly #open: OpenLive
  readonly #rates: NetworkRates
  readonly #forget: () => void
  readonly #ended = new AbortController()
  readonly #listeners = new Set<LiveListener>()
  readonly #watchdog: NodeJS.Timeout
  /** Resolves with the first figures. */
  readonly #begun: Promise<void>
  #begin = (): void => {}
  #fail = (_: ApiError): void => {}
  #latest: { reading: LiveReading; rate: readonly [number, number] } | undefined
  #heardAt = performance.now()
  #users = 0
  #why: 'CONTAINER_NOT_FOUND' | 'lost' | undefined

  constructor(app: AppRow, open: OpenLive, rates: NetworkRates, forget: () => void) {
    this.#app = app
    this.#open = open
    this.#rates = rates
    this.#forget = forget
    this.#begun = new Promise((resolve, reject) => {
      this.#begin = resolve
      this.#fail = reject
    })
    this.#begun.catch(ignoreError('reported to the callers that await it'))
    this.#watchdog = setInterval(() => this.#lookAtClock(), 1000)
    void this.#run()
  }

  /** Waits for the first figures; `listen` then, and `leave` in any case. Throws CLUSTER_UNAVAILABLE and CLUSTER_TIMEOUT. */
  async join(): Promise<void> {
    this.#users++
    await this.#begun
  }

  /** Begins with the full status, for which `app` is the row as the listener found it. What it gives back ends the listening. */
  listen(app: AppRow, listener: LiveListener): () => void {
    if (this.#latest) {
      const { reading, rate } = this.#latest
      const data = JSON.stringify(firstStatusView(app, reading, rate, Date.now()))
      listener.take(Buffer.from(frameOf({ event: 'status', data })))
    }
    this.#listeners.add(listener)
    if (this.#why) queueMicrotask(() => this.#tellEnd())
    return () => void this.#listeners.delete(listener)
  }

  /** To be called once for each `join`, however it went. */
  leave(): void {
    if (--this.#users === 0) this.#end('lost')
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended
    for (let wait = leastBackoffMs; !signal.aborted; wait = Math.min(wait * 2, mostBackoffMs)) {
      try {
        for await (const events of await this.#open(this.#app, signal)) {
          wait = leastBackoffMs
          this.#heardAt = performance.now()
          this.#tell(events)
        }
      } catch (error) {
        if (!this.#latest) this.#end('lost', error instanceof ApiError ? error : hostFailure(error))
      }
      await pause(wait, signal)
    }
  }

  #tell(events: LiveEvent[]): void {
    const frames: string[] = []
    let missing = false
    for (const event of events) {
      if ('line' in event) frames.push(frameOf({ event: 'logs', data: lineView(event) }))
      else if ('reading' in event) frames.push(this.#read(event.reading))
      else missing = true
    }
    if (frames.length > 0 && this.#listeners.size > 0) {
      const bytes = Buffer.from(frames.join(''))
      for (const listener of this.#listeners) listener.take(bytes)
    }
    if (missing) this.#end('CONTAINER_NOT_FOUND')
    if (missing || this.#latest) this.#begin()
  }

  #read(reading: LiveReading): string {
    const at = Date.now()
    const rate = this.#rates.of(this.#app.id, { ...reading, storageBytes: 0 }, at)
    this.#latest = { reading, rate }
    return frameOf({ event: 'status', data: JSON.stringify(statusView(this.#app, reading, rate, at)) })
  }

  #lookAtClock(): void {
    const silence = performance.now() - this.#heardAt
    if (silence > silentMs || (!this.#latest && silence > firstWithinMs))
      this.#end('lost', new ApiError('CLUSTER_TIMEOUT'))
  }

  #end(why: 'CONTAINER_NOT_FOUND' | 'lost', failure?: ApiError): void {
    if (this.#why) return
    this.#why = why
    this.#forget()
    this.#ended.abort()
    clearInterval(this.#watchdog)
    if (failure) this.#fail(failure)
    this.#tellEnd()
  }

  #tellEnd(): void {
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const listener of listeners) listener.end(this.#why!)
  }
}
