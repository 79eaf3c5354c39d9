import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Frame {
  event?: string
  id?: string
  data: string
}

/** Reads Server-Sent Events until the stream ends. `text` is everything as it came. */
export class EventReader {
  readonly frames: Frame[] = []
  text = ''
  /** Null until the answer begins. */
  response: IncomingMessage | null = null
  over = false
  readonly started: Promise<IncomingMessage>
  readonly ended: Promise<Frame[]>
  #parsed = 0

  constructor(url: string, key: string, headers: Record<string, string> = {}) {
    const own = { authorization: key, accept: 'text/event-stream', ...headers }
    const call = get(url, { agent: false, headers: own })
    this.started = new Promise((resolve, reject) => call.once('response', resolve).once('error', reject))
    this.ended = this.started.then(
      response =>
        new Promise(resolve => {
          this.response = response
          const done = () => {
            this.over = true
            resolve(this.frames)
          }
          response.setEncoding('utf8').on('data', piece => this.#take(piece))
          response.once('end', done).once('error', done).once('close', done)
        }),
    )
    this.ended.catch(() => {})
  }

  #take(piece: string): void {
    this.text += piece
    for (let end = this.text.indexOf('\n\n', this.#parsed); end >= 0; end = this.text.indexOf('\n\n', this.#parsed)) {
      const lines = this.text.slice(this.#parsed, end).split('\n')
      this.#parsed = end + 2
      const field = (name: string) =>
        lines.filter(line => line.startsWith(`${name}: `)).map(line => line.slice(name.length + 2))
      const [event] = field('event')
      if (event) this.frames.push({ event, id: field('id')[0], data: field('data').join('\n') })
    }
  }

  /** Texts of one kind of event. */
  of(event: string): string[] {
    return this.frames.filter(frame => frame.event === event).map(frame => frame.data)
  }

  /** Waits until something holds of what came, at most 15 s. */
  async until(holds: (reader: EventReader) => boolean): Promise<void> {
    for (const end = Date.now() + 15_000; !holds(this); await sleep(10))
      if (Date.now() > end) throw new Error(`not within 15 s: ${this.text.slice(-1000)}`)
  }

  leave(): void {
    this.response?.destroy()
  }
}
