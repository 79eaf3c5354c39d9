import type { Readable } from 'node:stream'

const [comma, zero] = Buffer.from(',0') as unknown as [number, number]

/** `{type:"Buffer",data:[...]}` as JSON text; a list of 10 MB is never in memory as a whole. */
export async function* bufferJson(bytes: Readable): AsyncGenerator<string | Uint8Array> {
  yield '{"type":"Buffer","data":['
  let separator = ''
  for await (const chunk of bytes) {
    yield separator
    yield listOf(chunk)
    separator = ','
  }
  yield ']}'
}

/** The bytes of a piece as numbers with commas between them, written digit by digit: a string for each would take ten times as long. */
function listOf(chunk: Uint8Array): Uint8Array {
  const text = Buffer.allocUnsafe(chunk.length * 4)
  let end = 0
  for (const byte of chunk) {
    if (byte > 99) text[end++] = zero + Math.trunc(byte / 100)
    if (byte > 9) text[end++] = zero + (Math.trunc(byte / 10) % 10)
    text[end++] = zero + (byte % 10)
    text[end++] = comma
  }
  return text.subarray(0, end - 1)
}

/** `{encoding:"base64",data:...}` as JSON text. */
export async function* base64Json(bytes: Readable): AsyncGenerator<string> {
  yield '{"encoding":"base64","data":"'
  let rest = Buffer.alloc(0)
  for await (const chunk of bytes) {
    const piece = Buffer.concat([rest, chunk])
    const whole = piece.length - (piece.length % 3)
    yield piece.toString('base64', 0, whole)
    rest = piece.subarray(whole)
  }
  yield `${rest.toString('base64')}"}`
}
