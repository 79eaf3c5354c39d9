import type { BorrowedBody } from '../../activities/objects/port.ts'
import type { ByteRange } from '../../lib/byte-range.ts'
import { type Portion, portionOf, type Validators } from '../../lib/preconditions.ts'
import { idleReaderMs } from '../../policy/patience.ts'
import type { Exchange } from '../http/exchange.ts'
import { type Reply, streamed } from '../http/respond.ts'
import { text } from './text-answers.ts'

/** Bytes that can be sent, whole or in part. */
export interface Sendable extends Validators {
  headers: Record<string, string>
  /** Rejects when the bytes cannot be had, so that this is an error and no empty file. Who needs no time asks for no signal. */
  open(range: ByteRange | null, signal: () => AbortSignal): Promise<Buffer | BorrowedBody>
}

/** Asked when bytes are about to flow: further headers, or a refusal, and then none do. */
export type Toll = (portion: Portion) => Promise<{ headers?: Record<string, string>; refusal?: Reply }>

/** Answers a GET or HEAD with what its conditions and range ask for; refusals are text. Rejects when the body breaks. */
export async function sendBody(exchange: Exchange, body: Sendable, toll?: Toll): Promise<Reply> {
  const portion = portionOf(exchange.request.method, exchange.request.headers, body)
  const { status } = portion
  if (status === 412) return text(412, 'The file is another one by now.\n')
  if (status === 416) return text(416, 'Nothing lies in this range.\n', { 'Content-Range': `bytes */${body.size}` })
  return sendPortion(exchange, body, portion, toll)
}

/** As `sendBody`, once it is decided what is sent; for wires that say refusals in their own way. */
async function sendPortion(exchange: Exchange, body: Sendable, portion: Portion, toll?: Toll): Promise<Reply> {
  const { request } = exchange
  if (portion.status === 304 || request.method === 'HEAD') {
    begin(exchange, body, portion).end()
    return streamed
  }
  if (!(await itsTurn(exchange.response))) {
    exchange.response.destroy()
    return streamed
  }
  const bytes = await body.open(portion.range, () => exchange.signal)
  try {
    // What is wrong with the first piece is an error yet, and spends nothing.
    const flowing = Buffer.isBuffer(bytes) ? null : await begun(bytes)
    const passed = await toll?.(portion)
    if (passed?.refusal) return passed.refusal
    const response = begin(exchange, body, portion, passed?.headers)
    if (flowing) await flow(flowing, response)
    else response.end(bytes)
    return streamed
  } finally {
    if (!Buffer.isBuffer(bytes)) bytes.destroy()
  }
}

/**
 * Resolves when nothing is before a response on its connection, for a body that is opened earlier lies in memory until then; with
 * false when its client goes first, which the response is not told by itself.
 */
function itsTurn(response: Exchange['response']): Promise<boolean> {
  const { socket } = response.req
  return new Promise(resolve => {
    if (response.socket || socket.destroyed) return resolve(response.socket !== null)
    const closed = () => resolve(false)
    socket.once('close', closed)
    response.once('socket', () => {
      socket.off('close', closed)
      resolve(true)
    })
  })
}

interface Flowing {
  first: IteratorResult<Buffer>
  rest: AsyncIterator<Buffer>
}

async function begun(bytes: BorrowedBody): Promise<Flowing> {
  const rest = bytes[Symbol.asyncIterator]()
  return { first: await rest.next(), rest }
}

/** Each piece is with the kernel before the next is asked for, and the store reads ahead meanwhile. */
async function flow({ first, rest }: Flowing, response: Exchange['response']): Promise<void> {
  response.setTimeout(idleReaderMs.body, () => response.destroy())
  try {
    for (let next = first; !next.done; next = await rest.next()) {
      const piece = next.value
      await taken(response, done => response.write(piece, done))
    }
    await taken(response, done => response.end(done))
  } catch (error) {
    const isGone = response.req.socket.destroyed
    response.destroy()
    if (!isGone) throw error
  } finally {
    await rest.return?.()
  }
}

/** Resolves when a response has given away what it was given; rejects when its client goes first. */
function taken(response: Exchange['response'], give: (done: (error?: Error | null) => void) => void): Promise<void> {
  const { socket } = response.req
  return new Promise((resolve, reject) => {
    const lost = () => reject(new Error('The client is gone.'))
    if (socket.destroyed) return lost()
    socket.once('close', lost)
    give(error => {
      socket.off('close', lost)
      if (error) reject(error)
      else resolve()
    })
  })
}

function begin(
  { response, requestId }: Exchange,
  { size, etag, modified, headers }: Sendable,
  { status, range }: Portion,
  more: Record<string, string> = {},
): Exchange['response'] {
  return response.writeHead(status, {
    ...headers,
    ...more,
    ...(status !== 304 && { 'Content-Length': range ? range.to - range.from + 1 : size }),
    ...(range && { 'Content-Range': `bytes ${range.from}-${range.to}/${size}` }),
    'Accept-Ranges': 'bytes',
    ETag: `"${etag}"`,
    'Last-Modified': modified.toUTCString(),
    'X-Request-Id': requestId,
  })
}
