import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** One request on the wire, before anything is known about it. */
export class Exchange {
  readonly requestId = randomUUID()
  readonly startedAt = performance.now()
  /** Decoded parts of the path by name, once the route is known. */
  path: Record<string, string | undefined> = {}
  /** Query parameters by name, once the route is known; repeated ones are a list. */
  search: Record<string, unknown> = {}
  /** Further headers of the answer, set by an endpoint. */
  readonly headers: Record<string, string> = {}
  /** Id of what a command was about, where the path does not name it; for the audit record. */
  resource: string | undefined
  /** Account whose resource that is, where it is not the caller's. */
  resourceOwner: string | undefined
  /** Account that a public command turned out to be done for. */
  actor: string | undefined
  /** Whether the audit record has it already, in the commit of what was done. */
  recorded = false
  #gone: AbortController | undefined
  readonly #afterwards: (() => void)[] = []

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly address: string,
  ) {}

  /** To be called once the request was acted upon, however that went. */
  afterwards(release: () => void): void {
    this.#afterwards.push(release)
  }

  /** Nothing of the request is held any more. */
  over(): void {
    for (const release of this.#afterwards.splice(0)) release()
  }

  /** Aborts when the client hangs up. */
  get gone(): AbortSignal {
    if (!this.#gone) {
      const controller = new AbortController()
      this.#gone = controller
      if (this.response.destroyed) controller.abort()
      else this.response.once('close', () => controller.abort())
    }
    return this.#gone.signal
  }
}
