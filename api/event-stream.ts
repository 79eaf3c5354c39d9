import type { Exchange } from './call.ts'

const heartbeatMs = 15_000
const reconnectMs = 2000
/** A reader that lags behind by this is cut; it may come back with `Last-Event-ID`. */
const mostBuffered = 1024 * 1024

export interface StreamEvent {
  event: string
  data: string
  id?: string
}

/** One stream of Server-Sent Events to one client. */
export class EventStream {
  #exchange: Exchange
  #heartbeat: NodeJS.Timeout

  constructor(exchange: Exchange) {
    this.#exchange = exchange
    const { response, requestId } = exchange
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      // The proxy must not collect it.
      'X-Accel-Buffering': 'no',
      'X-Request-Id': requestId,
    })
    this.#heartbeat = setInterval(() => this.#write(': ping\n\n'), heartbeatMs)
    exchange.gone.addEventListener('abort', () => clearInterval(this.#heartbeat))
    this.#write(`retry: ${reconnectMs}\n\n`)
  }

  /** A text of several lines arrives as it was, with its line ends as `\n`. */
  send({ event, data, id }: StreamEvent): void {
    const lines = data.split(/\r\n|\r|\n/).map(line => `data: ${line}\n`)
    this.#write(`event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}${lines.join('')}\n`)
  }

  end(): void {
    clearInterval(this.#heartbeat)
    this.#exchange.response.end()
  }

  #write(text: string): void {
    const { response } = this.#exchange
    if (response.destroyed) return
    response.write(text)
    if (response.writableLength > mostBuffered) response.destroy()
  }
}

/** Whether a client asks for a stream. */
export function wantsStream({ request }: Exchange): boolean {
  return /\btext\/event-stream\b/i.test(request.headers.accept ?? '')
}
