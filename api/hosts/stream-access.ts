import type { AppRow } from '../../db/apps/apps.ts'
import { type Db, isUnavailable } from '../../db/database.ts'
import type { Notifications } from '../../db/notifications.ts'
import type { Permission } from '../../policy/accounts/permissions.ts'
import type { Exchange } from '../http/exchange.ts'
import { accessApp } from '../pipeline/access.ts'
import type { Authenticate, Caller } from '../pipeline/authenticate.ts'

/** Security (f): without any news, the right to an open stream is checked this often. */
const checkEveryMs = 60_000
/** A credential is believed for half a second after it was found live; a check sooner than that could still pass. */
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
  /** A check is due within moments, or under way. */
  soon: boolean
  /** There was news since it was due: what it finds may be older than that. */
  again: boolean
}

/**
 * Who may go on reading the streams of applications that are open in this process. Looks again when the account's rights were
 * changed anywhere (notification `access`) or the application was (`apps`), when the credential expires, and once a minute; a
 * database that is away is asked again.
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
      const concerned = about[channel as keyof typeof about]
      if (!concerned) return
      for (const stream of this.#open) if (concerned(stream) === id) this.#news(stream, settleMs)
    })
    // What was announced while the line was down is unknown. Not all at once: each check asks the database.
    notifications.on('ready', () => {
      for (const stream of this.#open) this.#news(stream, settleMs + Math.random() * retryMs)
    })
  }

  /** Calls `end` at most once; what it gives back takes the stream off the list. */
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

  /** Ends every stream, and those that are still to come. */
  leave(): void {
    this.#leaving = true
    for (const stream of [...this.#open]) this.#end(stream, 'leaving')
  }

  /** Every piece of news is followed by a check that begins later than it settles, and a flood of it by no more than one a time. */
  #news(stream: OpenStream, milliseconds: number): void {
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
