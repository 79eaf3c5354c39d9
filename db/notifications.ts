import { EventEmitter } from 'node:events'
import pg from 'pg'
import { ignoreError } from '../lib/async/ignore-error.ts'
import { listening } from '../policy/listening.ts'

type Timings = Record<keyof typeof listening, number>

/**
 * One listening connection of a process. Emits `notify` with channel and payload, and `ready` each time the connection (re)opens:
 * earlier notifications are lost, so listeners must look for changes then. Pings find a connection that died silently
 * (`policy/listening.ts`).
 */
export class Notifications extends EventEmitter<{ notify: [channel: string, payload: string]; ready: [] }> {
  #url: string
  #channels: readonly string[]
  #timings: Timings
  #client: pg.Client | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(url: string, channels: readonly string[], timings: Partial<Timings> = {}) {
    super()
    this.#url = url
    this.#channels = channels
    this.#timings = { ...listening, ...timings }
    this.setMaxListeners(0)
  }

  /** Opens the connection; resolves even when Postgres is down: opening is retried until `close`. */
  async open(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'berth-listen',
      connectionTimeoutMillis: 2000,
      query_timeout: this.#timings.answerWithinMs,
      keepAlive: true,
    })
    this.#client = client
    // Without this listener a dropped connection would end the process.
    client.on('error', () => {})
    client.on('end', () => this.#reopenLater(client))
    client.on('notification', ({ channel, payload }) => this.emit('notify', channel, payload ?? ''))
    try {
      await client.connect()
      for (const channel of this.#channels) await client.query(`listen ${client.escapeIdentifier(channel)}`)
      if (this.#closed) return
      this.#pingLater(client)
      this.emit('ready')
    } catch {
      this.#replace(client)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#client?.end().catch(ignoreError('the line may be dead already'))
  }

  #pingLater(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      client.query('select 1').then(
        () => client === this.#client && !this.#closed && this.#pingLater(client),
        () => this.#replace(client),
      )
    }, this.#timings.pingEveryMs)
  }

  /** Does not wait for the client to end: a dead connection would never report it. */
  #replace(client: pg.Client): void {
    client.end().catch(ignoreError('the connection may be dead already'))
    this.#reopenLater(client)
  }

  #reopenLater(client: pg.Client): void {
    if (this.#closed || client !== this.#client) return
    this.#client = undefined
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.open(), this.#timings.retryMs)
  }
}
