import type { ServerResponse } from 'node:http'
import { type LiveEvent, LiveFeed } from '../../../activities/live/live-feed.ts'
import { MiB } from '../../../lib/bytes.ts'
import { type HostRoute, type HostServerOptions, newestContainer } from './host-route.ts'

/** A reader that lags behind by this is cut; it may come again. */
const mostBuffered = MiB

/** One application's feed, told to everyone who reads it as one JSON object a line. */
class SharedFeed {
  readonly #readers = new Set<ServerResponse>()
  readonly #feed: LiveFeed
  readonly #forget: () => void
  #latest: Buffer | undefined
  #waiting: string[] = []

  constructor(appId: string, host: HostServerOptions, forget: () => void) {
    this.#forget = forget
    const newest = () => newestContainer(host, appId)
    this.#feed = new LiveFeed({ engine: host.engine, newest }, event => this.#gather(event))
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

  /** What happens in one turn of the loop goes out in one piece, made once for all. */
  #gather(event: LiveEvent): void {
    const line = `${JSON.stringify(event)}\n`
    if ('reading' in event) this.#latest = Buffer.from(line)
    if (this.#waiting.push(line) === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    if (this.#waiting.length === 0) return
    const piece = Buffer.from(this.#waiting.join(''))
    this.#waiting = []
    for (const reader of this.#readers) {
      reader.write(piece)
      if (reader.writableLength > mostBuffered) reader.destroy()
    }
  }
}

/** The live stream of one application: one log stream of the engine and one timer, however many read it. */
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
