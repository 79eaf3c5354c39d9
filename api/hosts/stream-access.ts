import type { AppRow } from '../../db/apps/apps.ts'
import { type Db, isUnavailable } from '../../db/database.ts'
import type { Notifications } from '../../db/notifications.ts'
import type { Permission } from '../../policy/accounts/permissions.ts'
import type { Exchange } from '../http/exchange.ts'
import { accessApp } from '../pipeline/access.ts'
import type { Authenticate, Caller } from '../pipeline/authenticate.ts'

/** Without notifications, the right to an open stream is checked this often. */
const checkEveryMs = 60_000
/** A valid credential is cached for half a second; a check sooner than that could still pass. */
const settleMs = 700
const retryMs = 2000

/** The right is lost, or this process is about to end. */
export type StreamEnd = 'lost' | 'leaving'

interface OpenStream {
  caller: Caller
  appId: string
  exchange: Exchange
  permission: Permission
  end(why: StreamEnd): void
  timer?: NodeJS.Timeout
  /** A check is scheduled or in progress. */
  soon: boolean
  /** There was another notification since: the result of that check may be outdated. */
  again: boolean
}

/**
 * Ends streams of applications in this process whose caller has lost the right to read them. Checks again when the account's rights
 * (notification `access`) or the application (`apps`) have changed, when the credential expires, and once a minute; while the
 * database is unavailable the check is repeated.
 */
export class StreamAccess {
  readonly #authenticate: Authenticate
  readonly #db: Db
  readonly #open = new Set<OpenStream>()
  #leaving = false

  constructor({ authenticate, db }: { authenticate: Authenticate; db: Db }, notifications: Notifications) {
    this.#authenticate = authenticate
    this.#db = db
    notifications.on('notify', (channel, id) => {
      const about = {
        access: (stream: OpenStream) => stream.caller.user.id,
        apps: (stream: OpenStream) => stream.appId,
      }
      const idOf = about[channel as keyof typeof about]
      if (!idOf) return
      for (const stream of this.#open) if (idOf(stream) === id) this.#checkSoon(stream, settleMs)
    })
    // Notifications may have been missed while the connection was down. Spread out, because each check queries the database.
    notifications.on('ready', () => {
      for (const stream of this.#open) this.#checkSoon(stream, settleMs + Math.random() * retryMs)
    })
  }

  /** Watches a stream and calls `end` at most once. Returns a function that stops the watch. */
  watch(
    { caller, app, exchange }: { caller: Caller; app: AppRow; exchange: Exchange },
    permission: Permission,
    end: (why: StreamEnd) => void,
  ): () => void {
    const stream: OpenStream = { caller, appId: app.id, exchange, permission, end, soon: false, again: false }
    this.#open.add(stream)
    this.#later(stream)
    if (this.#leaving) queueMicrotask(() => this.#end(stream, 'leaving'))
    return () => this.#forget(stream)
  }

  /** Ends every stream, including those that are opened later. */
  leave(): void {
    this.#leaving = true
    for (const stream of [...this.#open]) this.#end(stream, 'leaving')
  }

  /** Every notification is followed by a check that starts after `settleMs`; many notifications share one check at a time. */
  #checkSoon(stream: OpenStream, milliseconds: number): void {
    if (stream.soon) stream.again = true
    else this.#checkIn(stream, milliseconds)
    stream.soon = true
  }

  #later(stream: OpenStream): void {
    const expires = stream.caller.user.credential_expires_at?.getTime() ?? Number.POSITIVE_INFINITY
    this.#checkIn(stream, Math.min(checkEveryMs, Math.max(0, expires - Date.now()) + settleMs))
  }

  #checkIn(stream: OpenStream, milliseconds: number): void {
    clearTimeout(stream.timer)
    stream.timer = setTimeout(() => void this.#check(stream), milliseconds)
  }

  async #check(stream: OpenStream): Promise<void> {
    const { exchange, permission } = stream
    stream.soon = true
    try {
      const caller = await this.#authenticate(exchange.request, exchange.address)
      await accessApp(this.#db, caller, exchange.path.appId ?? '', permission)
      if (!this.#open.has(stream)) return
      stream.soon = stream.again
      stream.again = false
      stream.soon ? this.#checkIn(stream, settleMs) : this.#later(stream)
    } catch (error) {
      if (!isUnavailable(error)) this.#end(stream, 'lost')
      else if (this.#open.has(stream)) this.#checkIn(stream, retryMs)
    }
  }

  #end(stream: OpenStream, why: StreamEnd): void {
    if (!this.#open.has(stream)) return
    this.#forget(stream)
    stream.end(why)
  }

  #forget(stream: OpenStream): void {
    clearTimeout(stream.timer)
    this.#open.delete(stream)
  }
}
