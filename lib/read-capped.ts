/** All bytes of a stream, or null once there are more than `maxBytes`; the stream is closed then. Rejects as the stream does. */
export async function readCapped(
  stream: AsyncIterable<Uint8Array> | null,
  maxBytes: number,
): Promise<Buffer<ArrayBuffer> | null> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of stream ?? []) {
    size += piece.length
    if (size > maxBytes) return null
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** The JSON value of a stream; undefined when it is not JSON, or has more than `maxBytes`. Rejects as the stream does. */
export async function readCappedJson(stream: AsyncIterable<Uint8Array> | null, maxBytes: number): Promise<unknown> {
  const bytes = await readCapped(stream, maxBytes)
  try {
    return bytes ? JSON.parse(bytes.toString('utf8')) : undefined
  } catch {
    return undefined
  }
}
