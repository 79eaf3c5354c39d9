import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** One for all: each of its own would capture a stack. */
const disconnected = new DOMException('The client has disconnected', 'AbortError')

/** One request on the wire, before anything is known about it. */
export class Exchange {
  readonly requestId = randomUUID()
  readonly startedAt = performance.now()
  /** Decoded path parameters by name, once the route is known. */
  path: Record<string, string | undefined> = {}
  /** Query parameters by name, once the route is known; repeated ones are a list. */
  search: Record<string, unknown> = {}
  /** Additional headers of the answer, set by the endpoint. */
  readonly headers: Record<string, string> = {}
  /** Id of the resource of a command if the path does not name it; for the audit record. */
  resource: string | undefined
  /** Account that owns the resource, if it is not the caller's. */
  resourceOwner: string | undefined
  /** Account for which a public command turned out to be executed. */
  actor: string | undefined
  /** Name of the command for the log, on a surface without endpoints. */
  command: string | undefined
  /** Whether the command's own commit has written the audit entry already. */
  recorded = false
  /** Whether the command made no difference, so that it has no audit entry. */
  changedNothing = false
  #closed: AbortController | undefined
  readonly #releases: (() => void)[] = []

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly address: string,
  ) {}

  /** Registers what `release` calls once the request has been handled, whatever the outcome. */
  onEnd(release: () => void): void {
    this.#releases.push(release)
  }

  /** Releases everything that the request holds. */
  release(): void {
    for (const release of this.#releases.splice(0)) release()
  }

  /** Aborts when the client disconnects. */
  get signal(): AbortSignal {
    if (!this.#closed) {
      const controller = new AbortController()
      this.#closed = controller
      const abort = () => controller.abort(disconnected)
      if (this.response.destroyed || this.request.socket.destroyed) abort()
      else this.#onClose(abort)
    }
    return this.#closed.signal
  }

  #onClose(abort: () => void): void {
    const { request, response } = this
    response.once('close', abort)
    if (response.socket) return
    // That of a pipelined request gets its connection after those before it, and hears of its end only then.
    const { socket } = request
    setMaxListeners(0, socket) // one for each request that waits
    socket.once('close', abort)
    response.once('close', () => socket.off('close', abort))
  }
}
