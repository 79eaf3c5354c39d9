import type { FileHandle } from 'node:fs/promises'

const pieceBytes = 256 * 1024

/** The bytes of a file from `start` on, up to `end`. */
export async function* piecesOf(
  file: FileHandle,
  start = 0,
  end: number = Number.POSITIVE_INFINITY,
): AsyncGenerator<Buffer> {
  for (let at = start; at < end; ) {
    const length = Math.min(pieceBytes, end - at)
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}
