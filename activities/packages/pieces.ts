import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { Digest } from '../../policy/packages/documents.ts'

const pieceBytes = 256 * 1024

/** The size of a file, and whether it has the digest that is expected; null when its content is not what its name says. */
export async function verified(
  file: FileHandle,
  name: string,
  expected: Digest | null,
  signal: AbortSignal,
): Promise<{ bytes: number; isExpected: boolean } | null> {
  const content = createHash('sha256')
  const other = expected && createHash(expected.algorithm)
  let bytes = 0
  for await (const piece of piecesOf(file)) {
    signal.throwIfAborted()
    bytes += piece.length
    content.update(piece)
    other?.update(piece)
  }
  if (!name.endsWith(content.digest('hex'))) return null
  return { bytes, isExpected: !other || other.digest('hex') === expected?.hex }
}

/** The bytes of a file from `start` on. */
export async function* piecesOf(file: FileHandle, start = 0): AsyncGenerator<Buffer> {
  for (let at = start; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceBytes), 0, pieceBytes, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}
