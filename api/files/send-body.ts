import type { BorrowedBody } from '../../activities/objects/port.ts'
import type { ByteRange } from '../../lib/byte-range.ts'
import { type Portion, portionOf, type Validators } from '../../lib/preconditions.ts'
import { idleReaderMs } from '../../policy/timeouts.ts'
import type { Exchange } from '../http/exchange.ts'
import { type Reply, streamed } from '../http/respond.ts'
import { text } from './text-answers.ts'

/** Bytes to send, whole or in part. */
export interface Sendable extends Validators {
  headers: Record<string, string>
  /** Rejects when the bytes cannot be read, so that the answer is an error and not an empty file. `signal` is created on first use. */
  open(range: ByteRange | null, signal: () => AbortSignal): Promise<Buffer | BorrowedBody>
}

/** Called before bytes are sent; returns additional headers, or a refusal, which is then sent instead. */
export type Toll = (portion: Portion) => Promise<{ headers?: Record<string, string>; refusal?: Reply }>

/** Answers a GET or HEAD according to its conditions and range; refusals are text. Rejects when the body breaks off. */
export async function sendBody(exchange: Exchange, body: Sendable, toll?: Toll): Promise<Reply> {
  const portion = portionOf(exchange.request.method, exchange.request.headers, body)
  const { status } = portion
  if (status === 412) return text(412, 'Precondition failed: the file has changed.\n')
  if (status === 416) return text(416, 'The range is outside the file.\n', { 'Content-Range': `bytes */${body.size}` })
  return sendPortion(exchange, body, portion, toll)
}

/** As `sendBody`, with a decided portion; for wires with refusals of their own. */
export async function sendPortion(exchange: Exchange, body: Sendable, portion: Portion, toll?: Toll): Promise<Reply> {
  const { request } = exchange
  if (portion.status === 304 || request.method === 'HEAD') {
    writeHead(exchange, body, portion).end()
    return streamed
  }
  if (!(await becomesFirst(exchange.response))) {
    exchange.response.destroy()
    return streamed
  }
  const bytes = await body.open(portion.range, () => exchange.signal)
  try {
    // A failure of the first piece is still an error answer, and spends nothing.
    const flowing = Buffer.isBuffer(bytes) ? null : await withFirstPiece(bytes)
    const passed = await toll?.(portion)
    if (passed?.refusal) return passed.refusal
    const response = writeHead(exchange, body, portion, passed?.headers)
    if (flowing) await flow(flowing, response)
    else response.end(bytes)
    return streamed
  } finally {
    if (!Buffer.isBuffer(bytes)) bytes.destroy()
  }
}

/**
 * Resolves when no earlier response is outstanding on the connection, because a body that is opened before that would wait in memory;
 * to false when the client disconnects first, of which the response gets no event.
 */
function becomesFirst(response: Exchange['response']): Promise<boolean> {
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

async function withFirstPiece(bytes: BorrowedBody): Promise<Flowing> {
  const rest = bytes[Symbol.asyncIterator]()
  return { first: await rest.next(), rest }
}

/** Each piece is passed to the kernel before the next is requested; the store reads ahead meanwhile. */
async function flow({ first, rest }: Flowing, response: Exchange['response']): Promise<void> {
  response.setTimeout(idleReaderMs.body, () => response.destroy())
  try {
    for (let next = first; !next.done; next = await rest.next()) {
      const piece = next.value
      await taken(response, done => response.write(piece, done))
    }
    await taken(response, done => response.end(done))
  } catch (error) {
    const isDisconnected = response.req.socket.destroyed
    response.destroy()
    if (!isDisconnected) throw error
  } finally {
    await rest.return?.()
  }
}

/** Resolves when a response has passed on what it was given; rejects when the client disconnects first. */
function taken(response: Exchange['response'], give: (done: (error?: Error | null) => void) => void): Promise<void> {
  const { socket } = response.req
  return new Promise((resolve, reject) => {
    const lost = () => reject(new Error('The client disconnected.'))
    if (socket.destroyed) return lost()
    socket.once('close', lost)
    give(error => {
      socket.off('close', lost)
      if (error) reject(error)
      else resolve()
    })
  })
}

function writeHead(
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
