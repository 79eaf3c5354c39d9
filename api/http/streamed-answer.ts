import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { idleReaderMs } from '../../policy/timeouts.ts'
import type { Exchange } from './exchange.ts'
import { streamed } from './respond.ts'

/**
 * Streams the envelope of success around a value that arrives as pieces of JSON text, at the pace of the client. When the value breaks
 * off, so does the connection. Resolves to what a handler with an envelope returns then.
 */
export async function streamSuccess(
  { response, requestId }: Exchange,
  pieces: AsyncIterable<string | Uint8Array>,
): Promise<never> {
  response.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
  })
  response.setTimeout(idleReaderMs.pieces, () => response.destroy())
  await pipeline(Readable.from(enveloped(pieces), { objectMode: false }), response).catch(() => response.destroy())
  return streamed as never
}

async function* enveloped(pieces: AsyncIterable<string | Uint8Array>): AsyncGenerator<string | Uint8Array> {
  yield '{"status":"success","response":'
  yield* pieces
  yield '}'
}
