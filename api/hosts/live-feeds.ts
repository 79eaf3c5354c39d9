import type { LiveEvent, LiveReading } from '../../activities/live/live-feed.ts'
import type { AppRow } from '../../db/apps/apps.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { pause } from '../../lib/async/loop.ts'
import { CodedError } from '../../policy/errors.ts'
import { frameOf } from '../http/event-stream.ts'
import { firstStatusView, lineView, statusView } from '../views/realtime.ts'
import { hostFailure } from './host-call.ts'
import type { OpenLive } from './live-events.ts'
import type { NetworkRates } from './network-rates.ts'

/** Figures arrive once a second: a host that is silent for this long is lost. */
const silentMs = 15_000
const firstWithinMs = 5000
const [minBackoffMs, maxBackoffMs] = [250, 4000]

export interface LiveListener {
  /** Receives whole frames, created once for all listeners. */
  take(frames: Buffer): void
  /** The feed has ended: the application has no container, or its host is lost. */
  end(why: 'CONTAINER_NOT_FOUND' | 'lost'): void
}

/** The live streams that this process reads from hosts: one for each application, shared by all its listeners. */
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
    const openFeed = this.#feeds.get(app.id)
    if (openFeed) return openFeed
    const feed = new LiveFeed(app, this.#open, this.#rates, () => {
      if (this.#feeds.get(app.id) === feed) this.#feeds.delete(app.id)
    })
    this.#feeds.set(app.id, feed)
    return feed
  }
}

/** One application's feed. A broken connection is reopened; after 15 s of silence the feed ends. */
export class LiveFeed {
  readonly #app: AppRow
  readonly #open: OpenLive
  readonly #rates: NetworkRates
  readonly #forget: () => void
  readonly #ended = new AbortController()
  readonly #listeners = new Set<LiveListener>()
  readonly #watchdog: NodeJS.Timeout
  /** Resolves with the first figures. */
  readonly #ready: Promise<void>
  #setReady = (): void => {}
  #fail = (_: CodedError): void => {}
  #latest: { reading: LiveReading; rate: readonly [number, number] } | undefined
  #heardAt = performance.now()
  #users = 0
  #why: 'CONTAINER_NOT_FOUND' | 'lost' | undefined

  constructor(app: AppRow, open: OpenLive, rates: NetworkRates, forget: () => void) {
    this.#app = app
    this.#open = open
    this.#rates = rates
    this.#forget = forget
    this.#ready = new Promise((resolve, reject) => {
      this.#setReady = resolve
      this.#fail = reject
    })
    this.#ready.catch(ignoreError('reported to the callers that await it'))
    this.#watchdog = setInterval(() => this.#checkSilence(), 1000)
    void this.#run()
  }

  /** Waits for the first figures. Call `listen` then, and `leave` in any case. Throws CLUSTER_UNAVAILABLE and CLUSTER_TIMEOUT. */
  async join(): Promise<void> {
    this.#users++
    await this.#ready
  }

  /** Starts with the full status, of the row `app` as the listener read it. Returns a function that stops listening. */
  listen(app: AppRow, listener: LiveListener): () => void {
    if (this.#latest) {
      const { reading, rate } = this.#latest
      const data = JSON.stringify(firstStatusView(app, reading, rate, Date.now()))
      listener.take(Buffer.from(frameOf({ event: 'status', data })))
    }
    this.#listeners.add(listener)
    if (this.#why) queueMicrotask(() => this.#endListeners())
    return () => void this.#listeners.delete(listener)
  }

  /** To be called once for each `join`, even one that failed. */
  leave(): void {
    if (--this.#users === 0) this.#end('lost')
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended
    for (let wait = minBackoffMs; !signal.aborted; wait = Math.min(wait * 2, maxBackoffMs)) {
      try {
        for await (const events of await this.#open(this.#app, signal)) {
          wait = minBackoffMs
          this.#heardAt = performance.now()
          this.#publish(events)
        }
      } catch (error) {
        if (!this.#latest) this.#end('lost', error instanceof CodedError ? error : hostFailure(error))
      }
      await pause(wait, signal)
    }
  }

  #publish(events: LiveEvent[]): void {
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
    if (missing || this.#latest) this.#setReady()
  }

  #read(reading: LiveReading): string {
    const rate = this.#rates.of(this.#app.id, { ...reading, storageBytes: 0 })
    this.#latest = { reading, rate }
    return frameOf({ event: 'status', data: JSON.stringify(statusView(this.#app, reading, rate, Date.now())) })
  }

  #checkSilence(): void {
    const silence = performance.now() - this.#heardAt
    if (silence > silentMs || (!this.#latest && silence > firstWithinMs))
      this.#end('lost', new CodedError('CLUSTER_TIMEOUT'))
  }

  #end(why: 'CONTAINER_NOT_FOUND' | 'lost', failure?: CodedError): void {
    if (this.#why) return
    this.#why = why
    this.#forget()
    this.#ended.abort()
    clearInterval(this.#watchdog)
    if (failure) this.#fail(failure)
    this.#endListeners()
  }

  #endListeners(): void {
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const listener of listeners) listener.end(this.#why!)
  }
}
