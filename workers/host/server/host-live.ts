import type { ServerResponse } from 'node:http'
import { type LiveEvent, LiveFeed } from '../../../activities/live/live-feed.ts'
import { MiB } from '../../../lib/bytes.ts'
import { type HostRoute, type HostServerOptions, servingContainer } from './host-route.ts'

/** A reader that lags behind by this is cut off; it may connect again. */
const maxBufferedBytes = MiB

/** One application's feed, sent to all its readers as one JSON object per line. */
class SharedFeed {
  readonly #readers = new Set<ServerResponse>()
  readonly #feed: LiveFeed
  readonly #forget: () => void
  #latest: Buffer | undefined
  #waiting: string[] = []

  constructor(appId: string, host: HostServerOptions, forget: () => void) {
    this.#forget = forget
    const current = () => servingContainer(host, appId)
    this.#feed = new LiveFeed({ engine: host.engine, current }, event => this.#gather(event))
    void this.#feed.run().then(() => {
      forget()
      this.#flush()
      for (const reader of this.#readers) reader.end()
    })
  }

  join(reader: ServerResponse): void {
    reader.writeHead(200, { 'Content-Type': 'application/x-ndjson', 'Cache-Control': 'no-store' })
    reader.flushHeaders()
    if (this.#latest) reader.write(this.#latest)
    this.#readers.add(reader)
    reader.once('close', () => {
      this.#readers.delete(reader)
      if (this.#readers.size > 0) return
      this.#forget()
      this.#feed.stop()
    })
  }

  /** Events of one turn of the event loop are sent in one chunk, created once for all readers. */
  #gather(event: LiveEvent): void {
    const line = `${JSON.stringify(event)}\n`
    if ('reading' in event) this.#latest = Buffer.from(line)
    if (this.#waiting.push(line) === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    if (this.#waiting.length === 0) return
    const chunk = Buffer.from(this.#waiting.join(''))
    this.#waiting = []
    for (const reader of this.#readers) {
      reader.write(chunk)
      if (reader.writableLength > maxBufferedBytes) reader.destroy()
    }
  }
}

/** The live stream of one application: one log stream of the engine and one timer for any number of readers. */
export function liveRoute(): HostRoute {
  const feeds = new Map<string, SharedFeed>()
  return {
    method: 'GET',
    name: 'live',
    async handle(ctx, appId, host) {
      const open = () => {
        const feed: SharedFeed = new SharedFeed(appId, host, () => {
          if (feeds.get(appId) === feed) feeds.delete(appId)
        })
        feeds.set(appId, feed)
        return feed
      }
      ctx.respond = false
      ;(feeds.get(appId) ?? open()).join(ctx.res)
    },
  }
}
