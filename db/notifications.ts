import { EventEmitter } from 'node:events'
import pg from 'pg'
import { listening } from '../policy/listening.ts'

type Patience = Record<keyof typeof listening, number>

/**
 * One listening connection of a process. Emits `notify` with channel and payload, and `ready` each time the connection
 * (re)opens: what was announced meanwhile is lost, so whoever waits should look again then. A line that died without a word is found
 * by asking it (`policy/listening.ts`).
 */
export class Notifications extends EventEmitter<{ notify: [channel: string, payload: string]; ready: [] }> {
  #url: string
  #channels: readonly string[]
  #patience: Patience
  #client: pg.Client | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(url: string, channels: readonly string[], patience: Partial<Patience> = {}) {
    super()
    this.#url = url
    this.#channels = channels
    this.#patience = { ...listening, ...patience }
    this.setMaxListeners(0)
  }

  /** Opens the connection; resolves at once, also when Postgres is away: it is tried again until `close`. */
  async open(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'berth-listen',
      connectionTimeoutMillis: 2000,
      query_timeout: this.#patience.answerWithinMs,
      keepAlive: true,
    })
    this.#client = client
    // Without this listener a dropped connection would end the process.
    client.on('error', () => {})
    client.on('end', () => this.#again(client))
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
    await this.#client?.end().catch(() => {})
  }

  #pingLater(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      client.query('select 1').then(
        () => client === this.#client && !this.#closed && this.#pingLater(client),
        () => this.#replace(client),
      )
    }, this.#patience.pingEveryMs)
  }

  /** Nobody waits for its end: a dead line would not tell. */
  #replace(client: pg.Client): void {
    client.end().catch(() => {})
    this.#again(client)
  }

  #again(client: pg.Client): void {
    if (this.#closed || client !== this.#client) return
    this.#client = undefined
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.open(), this.#patience.retryMs)
  }
}
