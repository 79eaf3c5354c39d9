import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type TLSSocket } from 'node:tls'

/** Frames of HTTP/2 as bytes, which no library would send: RFC 9113, 4.1 and 6. */
export const frames = {
  data: (stream: number, body: string, flags = 0) => frame(0, flags, stream, Buffer.from(body)),
  headers: (stream: number, fields: Field[], flags = endHeaders) => frame(1, flags, stream, block(fields)),
  reset: (stream: number) => frame(3, 0, stream, Buffer.from([0, 0, 0, 8])),
  settings: () => frame(4, 0, 0, Buffer.alloc(0)),
  continuation: (stream: number, fields: Field[], flags = endHeaders) => frame(9, flags, stream, block(fields)),
}

export const endStream = 1
export const endHeaders = 4
export type Field = readonly [name: string, value: string]

/** The fields of a request to `a.localhost`. */
export const requestTo = (path: string, ...more: Field[]): Field[] => [
  [':method', 'POST'],
  [':scheme', 'https'],
  [':authority', 'a.localhost'],
  [':path', path],
  ...more,
]

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** Literals without names of a table and without Huffman codes: RFC 7541, 6.2.2. */
const block = (fields: Field[]): Buffer =>
  Buffer.concat(fields.flatMap(field => [Buffer.from([0]), ...field.map(text)]))

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1')
  return Buffer.concat([length(bytes.length), bytes])
}

/** An integer with a prefix of 7 bits: RFC 7541, 5.1. */
function length(value: number): Buffer {
  if (value < 127) return Buffer.from([value])
  const bytes = [127]
  for (let rest = value - 127; ; rest = rest >> 7) {
    if (rest < 128) return Buffer.from([...bytes, rest])
    bytes.push((rest & 127) | 128)
  }
}

/** What came back. */
interface Received {
  /** Status of each stream that was answered. */
  statuses: Map<number, number>
  /** Bytes of the frame of data that ended each stream. */
  lastParts: Map<number, number>
  /** Streams that the server reset. */
  resets: number[]
  /** The server ended the connection (GOAWAY, or a closed socket). */
  ended: boolean
}

export interface FrameConnection {
  socket: TLSSocket
  received: Received
  /** Resolves once `done` is true, or the connection has ended; throws after 10 s. */
  until(done: (received: Received) => boolean): Promise<Received>
}

/** A connection that speaks HTTP/2, after the preface and the settings of both sides. */
export async function frameConnection(port: number, servername: string, ca: string): Promise<FrameConnection> {
  const socket = connect({ host: '127.0.0.1', port, servername, ca, ALPNProtocols: ['h2'] })
  await once(socket, 'secureConnect')
  const received: Received = { statuses: new Map(), lastParts: new Map(), resets: [], ended: false }
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', chunk => {
    rest = readFrames(Buffer.concat([rest, chunk]), received)
  })
  const end = () => {
    received.ended = true
  }
  socket.on('end', end).on('close', end).on('error', end)
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frames.settings()]))
  return {
    socket,
    received,
    async until(done) {
      for (let look = 0; look < 1000; look++) {
        if (done(received) || received.ended) return received
        await sleep(10)
      }
      throw new Error(`Nothing of what was awaited came back: ${JSON.stringify(received)}`)
    },
  }
}

function readFrames(bytes: Buffer, received: Received): Buffer {
  let at = 0
  while (bytes.length - at >= 9) {
    const size = bytes.readUIntBE(at, 3)
    if (bytes.length - at < 9 + size) break
    const [type, stream] = [bytes.readUInt8(at + 3), bytes.readUInt32BE(at + 5)]
    const ends = (bytes.readUInt8(at + 4) & endStream) > 0
    const payload = bytes.subarray(at + 9, at + 9 + size)
    if (type === 1 && !received.statuses.has(stream)) received.statuses.set(stream, statusOf(payload))
    if (type === 0 && ends) received.lastParts.set(stream, size)
    if (type === 3) received.resets.push(stream)
    if (type === 7) received.ended = true
    at += 9 + size
  }
  return bytes.subarray(at)
}

/** The statuses with a number of their own in the static table: RFC 7541, appendix A. */
const indexed: Record<number, number> = { 8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500 }

/** nginx begins a header block with the status, after an optional size of the dynamic table. */
function statusOf(payload: Buffer): number {
  let at = 0
  while ((payload[at]! & 0xe0) === 0x20) at++
  const first = payload[at]!
  return first & 0x80 ? indexed[first & 0x7f]! : Number(payload.subarray(at + 2, at + 5).toString())
}
