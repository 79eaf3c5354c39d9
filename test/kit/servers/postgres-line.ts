import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** What becomes of a message at a trap: `lost` never reaches the server; `answered` does, and its answer is lost. */
export type Loss = 'lost' | 'answered'

/** What happens to the connection: it ends, or it is silent until `release`, when held data is forwarded. */
export type Manner = 'cut' | 'held'

export interface Trap {
  /** The message that springs it. */
  at: RegExp
  /** Only in a transaction that has sent this before. */
  after?: RegExp
  loss: Loss
  manner: Manner
}

export interface PostgresLine {
  url: string
  /** Connections that were opened through it so far. */
  opened(): number
  /** Those that are open now. */
  open(): number
  /** Those that are open now stay open, and nothing passes on them any more. */
  silence(): void
  /** Lies in wait for one message; resolves when it has come and, for `answered`, when the server has answered it. */
  trap(trap: Trap): Promise<void>
  /**
   * Lets everything pass again that is silent, also what was said before its sender hung up; resolves when the server has answered
   * that.
   */
  release(): Promise<void>
  /** False refuses new connections by ending each immediately. */
  admit(open: boolean): void
  close(): Promise<void>
}

/** A line to the Postgres of `url` that knows its messages: it can fall silent, or break at one of them. */
export async function postgresLine(url: string): Promise<PostgresLine> {
  const target = { host: '127.0.0.1', port: Number(new URL(url).port) }
  const lines = new Set<Line>()
  let opened = 0
  let admits = true
  let armed: (Trap & { sprung(): void }) | undefined
  const take = (line: Line, message: string) => {
    if (!armed?.at.test(message) || (armed.after && !armed.after.test(line.sent))) return undefined
    const trap = armed
    armed = undefined
    return trap
  }
  const server = createServer(near => {
    if (!admits) return near.destroy()
    opened++
    const line = new Line(near, connect(target), take)
    lines.add(line)
    line.far.on('close', () => lines.delete(line))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const through = new URL(url)
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    opened: () => opened,
    open: () => lines.size,
    silence: () => {
      for (const line of lines) line.held = true
    },
    trap: trap =>
      new Promise(sprung => {
        armed = { ...trap, sprung }
      }),
    async release() {
      await Promise.all([...lines].map(line => line.release()))
    },
    admit: open => {
      admits = open
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const line of lines) line.end()
      await closed
    },
  }
}

/** One connection. What the client says is taken apart into messages; what the server says goes through as it comes. */
class Line {
  /** Nothing passes while this is so. */
  held = false
  /** What the client has said in its transaction. */
  sent = ''
  #greeted = false
  #rest = Buffer.alloc(0)
  #toServer: Buffer[] = []
  #toClient: Buffer[] = []
  #answered: (() => void) | undefined

  constructor(
    readonly near: Socket,
    readonly far: Socket,
    readonly take: (line: Line, message: string) => (Trap & { sprung(): void }) | undefined,
  ) {
    for (const socket of [near, far]) socket.on('error', () => {})
    far.on('close', () => this.end())
    // What was said is on its way, whether its sender still waits or not.
    near.on('close', () => this.#toServer.length > 0 || this.end())
    near.on('data', data => this.#said(data))
    far.on('data', data => {
      this.#answered?.()
      if (this.held) this.#toClient.push(data)
      else near.write(data)
    })
  }

  async release(): Promise<void> {
    this.held = false
    const late = this.#toServer.splice(0)
    const heard = late.length > 0 && Promise.race([once(this.far, 'data'), once(this.far, 'close')])
    for (const data of late) this.far.write(data)
    for (const data of this.#toClient.splice(0)) this.near.write(data)
    await heard
    if (this.near.destroyed) this.end()
  }

  end(): void {
    this.near.destroy()
    this.far.destroy()
  }

  #said(data: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, data])
    for (;;) {
      const head = this.#greeted ? 1 : 0 // only the first message has no type
      if (this.#rest.length < head + 4) return
      const length = head + this.#rest.readUInt32BE(head)
      if (this.#rest.length < length) return
      const message = this.#rest.subarray(0, length)
      this.#rest = this.#rest.subarray(length)
      this.#greeted = true
      this.#pass(message)
    }
  }

  #pass(message: Buffer): void {
    const text = message.toString('latin1')
    const trap = this.held ? undefined : this.take(this, text)
    this.sent = text.includes('BEGIN;') ? '' : (this.sent + text).slice(-20_000)
    if (!trap) {
      if (this.held && !this.#answered) this.#toServer.push(message)
      else this.far.write(message)
      return
    }
    const lost = trap.loss === 'lost'
    this.held = true
    if (!lost) this.far.write(message)
    else if (trap.manner === 'held') this.#toServer.push(message)
    const spring = () => {
      this.#answered = undefined
      if (trap.manner === 'cut') this.end()
      trap.sprung()
    }
    if (lost) spring()
    else this.#answered = spring
  }
}
