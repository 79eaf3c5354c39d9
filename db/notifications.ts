import { EventEmitter } from 'node:events'
import pg from 'pg'

/** After a lost connection the next try comes after this. */
const retryMs = 500

/**
 * One listening connection of a process. Emits `notify` with channel and payload, and `ready` each time the connection
 * (re)opens: what was announced meanwhile is lost, so whoever waits should look again then.
 */
export class Notifications extends EventEmitter<{ notify: [channel: string, payload: string]; ready: [] }> {
  #url: string
  #channels: readonly string[]
  #client: pg.Client | undefined
  #retry: NodeJS.Timeout | undefined
  #closed = false

  constructor(url: string, channels: readonly string[]) {
    super()
    this.#url = url
    this.#channels = channels
    this.setMaxListeners(0)
  }

  /** Opens the connection; resolves at once, also when Postgres is away: it is tried again until `close`. */
  async open(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'berth-listen',
      connectionTimeoutMillis: 2000,
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
      this.emit('ready')
    } catch {
      client.end().catch(() => {})
      this.#again(client)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    await this.#client?.end().catch(() => {})
  }

  #again(client: pg.Client): void {
    if (this.#closed || client !== this.#client) return
    this.#client = undefined
    this.#retry = setTimeout(() => void this.open(), retryMs)
  }
}
