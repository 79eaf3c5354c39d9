import { eventStreams } from '../../policy/timeouts.ts'
import type { Exchange } from './exchange.ts'

export interface StreamEvent {
  event: string
  data: string
  id?: string
}

/** The parameter in the OpenAPI document of streams that can be resumed. */
export const lastEventIdHeader = {
  name: 'Last-Event-ID',
  in: 'header',
  required: false,
  description: 'Resumes a stream after the event with this id.',
  schema: { type: 'string', pattern: '^[0-9]{1,10}$' },
}

/** One event in wire format. A text of several lines arrives unchanged, except that its line ends are `\n`. */
export function frameOf({ event, data, id }: StreamEvent): string {
  const lines = data.split(/\r\n|\r|\n/).map(line => `data: ${line}\n`)
  return `event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}${lines.join('')}\n`
}

export interface EventStreamOptions {
  /** After how long a client should reconnect when its stream breaks. */
  reconnectMs?: number
  /** Frames that are sent with each comment line `: ping`. */
  heartbeat?: string
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

/** One stream of Server-Sent Events to one client. */
export class EventStream {
  readonly #exchange: Exchange
  readonly #timer: NodeJS.Timeout
  readonly #heartbeat: string
  readonly #now: () => number
  #unsent = 0
  #movedAt: number
  #pingedAt: number

  constructor(exchange: Exchange, options: EventStreamOptions = {}) {
    const { reconnectMs = 2000, heartbeat = '', now = () => performance.now() } = options
    this.#exchange = exchange
    this.#now = now
    this.#movedAt = now()
    this.#pingedAt = this.#movedAt
    this.#heartbeat = `: ping\n\n${heartbeat}`
    const { response, requestId } = exchange
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      // The proxy must not buffer it.
      'X-Accel-Buffering': 'no',
      'X-Request-Id': requestId,
    })
    this.#timer = setInterval(() => this.look(), eventStreams.lookMs)
    exchange.signal.addEventListener('abort', () => clearInterval(this.#timer))
    this.write(`retry: ${reconnectMs}\n\n`)
  }

  send(event: StreamEvent): void {
    this.write(frameOf(event))
  }

  /** Writes whole frames; pass bytes when the same frames go to many streams. */
  write(frames: string | Buffer): void {
    const { response } = this.#exchange
    if (response.destroyed || response.writableEnded) return
    this.#unsent++
    response.write(frames, this.#sent)
    if (response.writableLength > eventStreams.bufferedBytes) response.destroy()
  }

  /** Resolves once the client has taken what is buffered for it, or `over` aborts. */
  async taken(over: AbortSignal): Promise<void> {
    const { response } = this.#exchange
    if (over.aborted || response.destroyed || !response.writableNeedDrain) return
    await new Promise<void>(resolve => {
      const done = () => {
        response.off('drain', done)
        over.removeEventListener('abort', done)
        resolve()
      }
      response.on('drain', done)
      over.addEventListener('abort', done)
    })
  }

  end(): void {
    clearInterval(this.#timer)
    this.#exchange.response.end()
  }

  readonly #sent = (): void => {
    this.#unsent--
    this.#movedAt = this.#now()
  }

  /** Disconnects a client that takes nothing, and sends a heartbeat when one is due. */
  look(): void {
    const now = this.#now()
    if (this.#unsent > 0 && now - this.#movedAt > eventStreams.stalledMs) return void this.#exchange.response.destroy()
    if (now - this.#pingedAt < eventStreams.pingMs - eventStreams.lookMs / 2) return
    this.#pingedAt = now
    this.write(this.#heartbeat)
  }
}

/** Whether the client accepts a stream of events. */
export function wantsStream({ request }: Exchange): boolean {
  return /\btext\/event-stream\b/i.test(request.headers.accept ?? '')
}
